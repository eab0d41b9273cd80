"""Names of models: their parts, and the patterns for names that a request may use."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

OFFLINE = "toolyard:offline"
"""The model of a server that configures none: it needs no key and no network, and is not a language model."""
PRESET_PREFIX = "preset:"
"""Before the name of a preset, which a request may name as its model: its prompt, model, tools and limits apply."""
PLAIN = "@plain"
"""The end of a model's name that offers none of the server's tools: for titles, tags and other texts about a chat."""
LOCAL_PREFIX = "local:"
"""Before the path of a GGUF file, which runs on this machine."""

_ADDRESS = re.compile(r"https?:", re.IGNORECASE)
_WILDCARDS = frozenset("*?[")
_PROVIDER = re.compile(r"(?!(?:https?|local|toolyard|preset):)[\w-]+:.+")
_SAFE = re.compile(r"[\w.:/@+-]{1,200}", re.ASCII)
"""Names that a pattern may match. Some wires put the name into a URL path, which it must not escape from."""


class ModelName(NamedTuple):
    """The parts of a name: `openai:gpt-5` has a provider, `http://host/v1#model` a base URL instead of one."""

    provider: str
    model: str
    base_url: str = ""


def parse_model_name(name: str) -> ModelName:
    """Return the parts of a name. A part that the name lacks is empty; a name without a colon is only a model."""
    if _ADDRESS.match(name):
        base_url, _, model = name.partition("#")
        return ModelName("", model, base_url)
    provider, colon, model = name.partition(":")
    return ModelName(provider, model) if colon else ModelName("", name)


def is_only_for_requests(name: str) -> bool:
    """Return whether only a request may use a name, and no preset: it stands for a preset, or for having no tools."""
    return name.startswith(PRESET_PREFIX) or name.endswith(PLAIN)


def is_address_or_file(name: str) -> bool:
    """Return whether the name says where a model is, in contrast to a provider's name for it."""
    return _ADDRESS.match(name) is not None or name.startswith(LOCAL_PREFIX)


def is_pattern(name: str) -> bool:
    return not _WILDCARDS.isdisjoint(name)


def is_safe_pattern(pattern: str) -> bool:
    """Return whether the pattern names models of one provider, not addresses or files."""
    return _PROVIDER.fullmatch(pattern) is not None


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    if _SAFE.fullmatch(name) is None or ".." in name or "//" in name:
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns)
