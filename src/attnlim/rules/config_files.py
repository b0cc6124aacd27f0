"""A model's configuration from where it lies: a dictionary, a config.json, a folder, or the metadata of a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from attnlim.core.checks import InputError, real_number, whole_number
from attnlim.rules.gguf_metadata import GgufFile, read_gguf
from attnlim.rules.model_families import TEXT_MODEL_AS, TEXT_MODEL_OF, Family, family_of

# where a configuration of several models keeps that of its language model
TEXT_KEYS = ("text_config", "language_config", "llm_config", "decoder", "generator")


@dataclass(frozen=True)
class Facts:
    """What a configuration says of its language model.

    Attributes:
        name: of the file, folder or model; empty for a dictionary.
        config: the part that is about the language model.
        outer: the whole.
        model_type: the kind, empty where it is not said.
        family: how that kind reads its configuration.
        gguf: the file that it was made from.
    """

    name: str
    config: Mapping[str, Any]
    outer: Mapping[str, Any]
    model_type: str
    family: Family
    gguf: GgufFile | None = None

    def get(self, key: str) -> Any:
        """The value of a key, the family's default where it is absent or null."""
        given = self.config.get(key)
        return self.family.defaults.get(key) if given is None else given

    def whole(self, key: str, least: int = 1) -> int | None:
        """The same as a whole number.

        Raises:
            InputError: it is something else.
        """
        value = self.get(key)
        return None if value is None else whole_number(key, value, least, f"mend it in the config{self._where()}")

    def real(self, key: str, above: float = 0.0) -> float | None:
        """The same as a number of at least ``above``."""
        value = self.get(key)
        return None if value is None else number(key, value, above)

    def _where(self) -> str:
        return f" of {self.name}" if self.name else ""


def number(key: str, value: Any, least: float = 0.0) -> float:
    """A number of a configuration; JSON's text "4.0" is none.

    Raises:
        InputError: not a finite number of at least ``least``.
    """
    if isinstance(value, str | bool):
        raise InputError(f"{key} must be a number, got {value!r}; mend it in the config")
    return real_number(key, value, above=least, closed=True, advice="mend it in the config")


def facts_of(source: Mapping[str, Any] | str | PathLike[str]) -> Facts:
    """The facts of a configuration: a dictionary, or a path to config.json, a folder that holds one, or a .gguf file.

    Raises:
        InputError: nothing there, not JSON, not a configuration, or a GGUF file that is cut short.
    """
    if isinstance(source, Mapping):
        return _facts("", source)
    path = Path(source).expanduser()
    if path.is_dir():
        path = path / "config.json"
        if not path.exists():
            raise InputError(
                f"{path.parent} has no config.json; give a folder that has one, a config.json or a .gguf file"
            )
    if not path.exists():
        raise InputError(f"{path} does not exist; give a config.json, a folder that holds one, or a .gguf file")
    if path.suffix == ".gguf":
        file = read_gguf(path)
        return _facts(path.stem, file.config(), file)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as reason:
        raise InputError(
            f"{path} is not readable as JSON ({reason}); give a config.json, a folder or a .gguf file"
        ) from reason
    if not isinstance(config, dict):
        raise InputError(f"{path} must hold a JSON object, got {type(config).__name__}; give a model's config.json")
    return _facts(path.resolve().parent.name if path.name == "config.json" else path.stem, config)


def _facts(name: str, outer: Mapping[str, Any], gguf: GgufFile | None = None) -> Facts:
    inner = next((outer[key] for key in TEXT_KEYS if isinstance(outer.get(key), Mapping)), None)
    if inner is None:
        kind = _kind(outer)
        return Facts(name, outer, outer, kind, family_of(kind), gguf)
    whole = str(outer.get("model_type") or "")
    kind = str(inner.get("model_type") or TEXT_MODEL_OF.get(whole, f"{whole}_text" if whole else ""))
    kind = TEXT_MODEL_AS.get((whole, kind), kind)
    return Facts(name, inner, outer, kind, family_of(kind), gguf)


def _kind(config: Mapping[str, Any]) -> str:
    names = config.get("architectures") or []
    if not isinstance(names, list):
        raise InputError(f"architectures must be a list of names, got {names!r}; mend it in the config")
    # Grok-2 says that it is "git", which in transformers is a captioning model of Microsoft
    if any(str(name).startswith("Grok1") for name in names) or "attn_temperature_len" in config:
        return "grok-2"
    kind = str(config.get("model_type") or "")
    if "swan" in kind.replace("-", "_").split("_"):
        return "swan"
    # a language model's keys at the outermost level, under the name of the whole
    return TEXT_MODEL_OF.get(kind, kind)
