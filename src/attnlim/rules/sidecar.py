"""An attached rule in a folder beside the checkpoint, and back onto a model.

``save_pretrained`` keeps neither the attention's name nor the rule. ``FOLDER/attnlim/`` holds ``rule.json`` with the rule and
the layers it is on, and a safetensors file with the learned parameters, which rule.json names with its hash: whatever
interrupts a saving, rule.json and the file that it names belong together.
"""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlim.core.checks import InputError, extra
from attnlim.core.files import replacing
from attnlim.rules.attaching import attach, attached_rule, detach, layer_rules, rule_of
from attnlim.rules.rule import Rule
from attnlim.rules.rule_json import as_data, from_data

FOLDER, RULE_FILE = "attnlim", "rule.json"
FORMAT, VERSION = "attnlim rule", 1


def save(model: Any, folder: str | PathLike[str]) -> Path:
    """Write the attached rule and its learned parameters into ``folder``/attnlim.

    Args:
        model: a model with a rule.
        folder: of the checkpoint, made if it is missing; a rule that lies there is replaced.

    Returns:
        The path of rule.json.

    Raises:
        InputError: no rule is attached, or it cannot be written down.
    """
    extra("safetensors", "models")
    from safetensors.torch import save as to_bytes

    rule = rule_of(model)
    if rule is None:
        raise InputError(f"{type(model).__name__} has no rule attached, so there is none to save")
    place = Path(folder) / FOLDER
    # clone: safetensors refuses tensors that share memory, and takes only contiguous ones
    tensors = {key: tensor.detach().cpu().clone() for key, tensor in _learned(model).items()}
    told: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model_type": model.config.model_type,
        "rule": as_data(rule),
        "on_top": any(one.on_top for one in layer_rules(model)),
        "heads": {str(one.layer): one.n_heads for one in layer_rules(model)},
        "parameters": None,
    }
    if tensors:
        packed = to_bytes(tensors)
        digest = hashlib.sha256(packed).hexdigest()
        name = f"parameters-{digest[:16]}.safetensors"
        told["parameters"] = {"file": name, "sha256": digest}
        with replacing(place / name) as unfinished:
            unfinished.write_bytes(packed)
    with replacing(place / RULE_FILE) as unfinished:
        unfinished.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for old in place.glob("parameters-*.safetensors"):
        if told["parameters"] is None or old.name != told["parameters"]["file"]:
            old.unlink()
    return place / RULE_FILE


def load(model: Any, folder: str | PathLike[str], *, on_top: bool | None = None, trainable: bool = True) -> Rule:
    """Attach the rule that :func:`save` wrote, with its learned parameters.

    Args:
        model: a model of the same layers and query heads, without a rule.
        folder: that ``save`` was given.
        on_top: as for :func:`attnlim.rules.attach`; None takes what the rule was attached with.
        trainable: as for :func:`attnlim.rules.attach`.

    Returns:
        The rule with its learned parameters.

    Raises:
        InputError: no rule there, one of another version or for another model, an unknown function, parameters that are
            missing or not those that were saved, and what :func:`attnlim.rules.attach` raises. The model is then as it was.
    """
    place = Path(folder) / FOLDER
    told = _read(place / RULE_FILE)
    tensors = _parameters(place, told["parameters"])
    rule = from_data(told["rule"])
    attach(model, rule, on_top=bool(told["on_top"]) if on_top is None else on_top, trainable=trainable)
    try:
        heads = {str(one.layer): one.n_heads for one in layer_rules(model)}
        if heads != told["heads"]:
            raise InputError(
                f"{place} holds a rule for {len(told['heads'])} layers of {_some(told['heads'])} query heads "
                f"({told['model_type']}), {type(model).__name__} has {len(heads)} of {_some(heads)}; load it onto the model "
                "that it was saved from"
            )
        _fill(_learned(model), tensors, place)
    except BaseException:
        detach(model)
        raise
    found = attached_rule(model)
    return rule if found is None else found


def _learned(model: Any) -> dict[str, Tensor]:
    """The learned parameters by layer, factor and name: a name that no wrapper around the model changes."""
    return {
        f"{one.layer}.{number}.{name}": tensor for one in layer_rules(model) for number, name, tensor in one.learned()
    }


def _fill(into: dict[str, Tensor], tensors: dict[str, Tensor], place: Path) -> None:
    shapes = {key: tuple(tensor.shape) for key, tensor in into.items()}
    if shapes != {key: tuple(tensor.shape) for key, tensor in tensors.items()}:
        differing = sorted(set(into) ^ set(tensors)) or sorted(
            key for key in into if into[key].shape != tensors[key].shape
        )
        raise InputError(f"{place}: the learned parameters do not fit the rule ({differing[0]}); save it again")
    if bad := next((key for key, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())), None):
        raise InputError(f"{place}: the learned parameters {bad} hold NaN or infinity; save a rule that has none")
    with torch.no_grad():
        for key, tensor in tensors.items():
            into[key].copy_(tensor)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"{path} does not exist; give the folder that attnlim.rules.save was given")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise InputError(f"{path} is no JSON ({reason}); save the rule again") from reason
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise InputError(f"{path} is no rule of attnlim; give the folder that attnlim.rules.save was given")
    if told.get("version") != VERSION:
        raise InputError(
            f"{path} is of version {told.get('version')!r}, this attnlim reads {VERSION}; use the attnlim that wrote it"
        )
    if missing := {"rule", "on_top", "heads", "parameters", "model_type"} - set(told):
        raise InputError(f"{path} lacks {', '.join(sorted(missing))}; save the rule again")
    return told


def _parameters(place: Path, told: Any) -> dict[str, Tensor]:
    if told is None:
        return {}
    extra("safetensors", "models")
    from safetensors.torch import load as from_bytes

    name = Path(str(told["file"])).name  # a file beside rule.json, whatever the text says
    path = place / name
    if not path.exists():
        raise InputError(f"{path} does not exist, and rule.json names it; save the rule again")
    packed = path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != told["sha256"]:
        raise InputError(f"{path} is not the file that rule.json was written with; save the rule again")
    found: dict[str, Tensor] = from_bytes(packed)
    return found


def _some(heads: dict[str, int]) -> str:
    return "/".join(map(str, sorted(set(heads.values()))))
