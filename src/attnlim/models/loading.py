"""Loading a checkpoint: a fetched model, a local folder, a GGUF file or a hub name; weights in safe formats only."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnlim.core.checks import InputError, extra, one_of
from attnlim.models.catalog import KNOWN_MODELS
from attnlim.models.fetching import PROVENANCE, fetched_folder

DTYPES = ("auto", "float32", "bfloat16", "float16")
# what checkpoints call the weights of a head
_HEAD = re.compile(r"lm_head|embed_out|^cls\.|^output\.")


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be measured.

    Attributes:
        model: the backbone, or where asked for the whole causal language model with its head; in evaluation mode.
        tokenizer: the tokenizer that came with it.
        name: what to call it in a report.
        note: what a reader of a figure must know of the weights, such as "4-bit weights, dequantised".
        source: what was loaded, for provenance.
    """

    model: Any
    tokenizer: Any
    name: str
    note: str
    source: str


def load(
    spec: str,
    *,
    device: str | None = None,
    dtype: str = "auto",
    device_map: str | None = None,
    trust_remote_code: bool = False,
    head: bool = False,
) -> LoadedModel:
    """Load the model and tokenizer that ``spec`` names.

    Args:
        spec: a key of ``attnlim models list``, a local folder, a .gguf file, or a hub name.
        device: where to put it; None takes cuda if there is one, else the cpu.
        dtype: "auto" keeps the checkpoint's own.
        device_map: accelerate's placement ("auto", "balanced", ...), instead of ``device``.
        trust_remote_code: run the Python code that comes with the checkpoint.
        head: with the head that predicts the next token, which attention statistics do not need.

    Raises:
        InputError: the model is unknown, missing, cut short, of an unknown kind, or its weights hold NaN; or ``head`` is
            asked for and the checkpoint has no weights for one.
    """
    extra("transformers", "models")
    one_of("--dtype", dtype, DTYPES)
    if device is not None and device_map is not None:
        raise InputError("--device and --device-map exclude each other; give one of them")
    path, name, note = _resolve(spec)
    settings: dict[str, Any] = {
        "dtype": dtype if dtype == "auto" else getattr(torch, dtype),
        "trust_remote_code": trust_remote_code,
    }
    if device_map is not None:
        extra("accelerate", "models")
        settings["device_map"] = device_map
    with _one_line(spec), quiet():
        if isinstance(path, Path) and path.suffix == ".gguf":
            model, tokenizer = load_gguf(path, head=head, **settings)
            model = model if head else model.base_model
        else:
            from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

            config = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code)
            _check_config(config, spec)
            if head:
                _check_predicts(config, spec)
            tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=trust_remote_code)
            # use_safetensors: pickled weights can run code when they are read
            # ignore_mismatched_sizes: what does not fit is told, and refused with its name
            model, told = (AutoModelForCausalLM if head else AutoModel).from_pretrained(
                path, use_safetensors=True, ignore_mismatched_sizes=True, output_loading_info=True, **settings
            )
            _check_complete(told, spec, head)
    if device_map is None:
        model = _move(model, device or ("cuda" if torch.cuda.is_available() else "cpu"))
    check_weights(model, spec)
    return LoadedModel(model.eval(), tokenizer, name, note, str(path))


def load_gguf(path: Path, head: bool = False, **settings: Any) -> tuple[Any, Any]:
    """The dequantised causal language model and the tokenizer of a GGUF file; ``head``: it must hold the head's weights."""
    extra("gguf", "models")
    extra("accelerate", "models")
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # plain tensors, so that the model can be saved and probed like any other; older transformers make nothing else of them
    if hasattr(transformers, "GgufConfig"):
        settings["quantization_config"] = transformers.GgufConfig(dequantize=True)
    settings.setdefault("dtype", torch.float32)
    with quiet():
        model, told = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, output_loading_info=True, **settings
        )
        _check_complete(told, str(path), head)
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    return model, tokenizer


def trained_length(model: Any) -> int | None:
    """The number of positions that the model was trained for, None where its config does not say."""
    length = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if not length:
        return None
    # RoBERTa's kin count positions from behind the padding index, and so lose that many
    offsets = [
        module.padding_idx + 1
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None
    ]
    return int(length) - max(offsets, default=0)


def check_weights(model: Any, name: str) -> None:
    """Refuse weights that hold NaN or infinity.

    Raises:
        InputError: naming the first such tensor.
    """
    for key, weight in _weights(model):
        if not bool(torch.isfinite(weight).all()):
            raise InputError(f"{name}: the weights {key} hold NaN or infinity; get the checkpoint again or another one")


def fingerprint(model: Any) -> str:
    """A short hash of the config and of a sample of every weight: whether two runs measured the same model."""
    digest = hashlib.sha256(json.dumps(model.config.to_dict(), sort_keys=True, default=str).encode())
    for key, weight in _weights(model):
        digest.update(f"{key}{tuple(weight.shape)}{weight.dtype}".encode())
        flat = weight.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // 64)][:64].cpu().double()
        digest.update(sample.numpy().tobytes())
    return digest.hexdigest()[:16]


def _weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Every parameter by name; one that accelerate has offloaded comes from where its hook keeps it."""
    for prefix, module in model.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight.device.type == "meta":
                weight = module._hf_hook.weights_map[name]
            yield f"{prefix}.{name}" if prefix else name, weight


def _check_complete(told: dict[str, Any], spec: str, head: bool) -> None:
    """Refuse a checkpoint that lacks weights: transformers fills the gaps with random numbers.

    A pooler is not measured, nor a head that was not asked for, so they may be missing; a head that is tied to the
    embeddings is not.
    """
    missing = sorted(key for key in told.get("missing_keys", ()) if "pooler" not in key)
    heads = [key for key in missing if _HEAD.search(key)]
    if head and heads:
        raise InputError(
            f"{spec} lacks the weights of its next-token head ({heads[0]}); get a checkpoint that has them"
        )
    missing = [key for key in missing if key not in heads]
    mismatched = [entry[0] if isinstance(entry, tuple) else entry for entry in told.get("mismatched_keys", ())]
    if missing or mismatched:
        what = f"lacks the weights {missing[0]}" if missing else f"has weights {mismatched[0]} of another shape"
        more = len(missing) + len(mismatched) - 1
        others = f" and {more} more" if more else ""
        raise InputError(
            f"{spec} {what}{others} that its config asks for; get the checkpoint again or mend config.json"
        )


def _resolve(spec: str) -> tuple[Path | str, str, str]:
    if spec in KNOWN_MODELS:
        folder = fetched_folder(KNOWN_MODELS[spec])
        if folder is None:
            raise InputError(f"{spec} is not on this machine yet; fetch it with: attnlim models get {spec}")
        return folder, KNOWN_MODELS[spec].title, KNOWN_MODELS[spec].note
    path = Path(spec).expanduser()
    if path.is_file():
        if path.suffix != ".gguf":
            raise InputError(f"{spec} is a file of unknown kind; give a .gguf file or a folder with config.json")
        return path, path.stem, _gguf_note(path)
    if path.is_dir():
        if (path / PROVENANCE).exists():
            provenance = json.loads((path / PROVENANCE).read_text())
            return path, provenance["title"], provenance["note"]
        if not (path / "config.json").exists():
            raise InputError(f"{spec} has no config.json; give a folder as written by save_pretrained, or a .gguf file")
        return path, path.resolve().name, ""
    if spec.endswith(".gguf") or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", spec) or spec.startswith("."):
        raise InputError(
            f"{spec} does not exist; give a local folder, a .gguf file, a hub name or one of: {', '.join(KNOWN_MODELS)}"
        )
    return spec, spec, ""


def _gguf_note(path: Path) -> str:
    gguf = extra("gguf", "models")
    with _one_line(str(path)):
        kinds = {tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors} - {"F32", "F16", "BF16"}
    return f"{'/'.join(sorted(kinds))} weights, dequantised" if kinds else ""


def _check_config(config: Any, spec: str) -> None:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            f"{spec} is an encoder-decoder ({config.model_type}); only decoders and encoders can be audited"
        )
    parameters = getattr(config.get_text_config(), "rope_parameters", None) or {}
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    for one in nested or [parameters]:
        kind = one.get("rope_type", "default")
        if kind != "default" and kind not in ROPE_INIT_FUNCTIONS:
            known = ", ".join(["default", *ROPE_INIT_FUNCTIONS])
            raise InputError(f"{spec}: config has the rope type {kind!r}, known are {known}; mend rope_parameters")


def _check_predicts(config: Any, spec: str) -> None:
    """Refuse a kind of model for which transformers has no next-token head."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    own = "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not own:
        raise InputError(
            f"{spec} ({config.model_type}) predicts no next token; give a decoder with its language-model head"
        )


def _move(model: Any, device: str) -> Any:
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as reason:
        raise InputError(f"--device {device} cannot be used here ({_first_line(reason)}); try --device cpu") from reason


@contextmanager
def _one_line(spec: str) -> Iterator[None]:
    """Whatever the loading libraries raise becomes one line: what could not be loaded, and why."""
    try:
        yield
    except InputError:
        raise
    except Exception as reason:  # each format and model kind raises its own types
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"cannot load {spec}{offline}: {type(reason).__name__}: {_first_line(reason)}; check the name, the files and the network"
        ) from reason


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the loading libraries' progress bars and notices off a terminal where our own are shown."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        # the bar of the GGUF reader obeys no switch of transformers, it writes to whatever stderr is
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _first_line(reason: BaseException) -> str:
    lines = str(reason).strip().splitlines()
    return lines[0].rstrip(".;: ") if lines else "no reason given"
