"""What is shown of a model that can be chosen."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from toolyard.core.errors import Misconfigured, MissingKey
from toolyard.core.masking import mask_addresses

InputKind = Literal["text", "image", "file"]


class ModelCard(Struct, frozen=True, kw_only=True):
    """A model by its name, what it takes, and why it cannot be used if it cannot."""

    id: str
    provider: str
    name: str
    default: bool
    context_tokens: int | None
    """None where nobody knows."""
    input: list[InputKind]
    native_tools: list[str]
    """What its provider runs itself."""
    available: bool
    reason: str | UnsetType = UNSET


def describe_model_problem(error: Misconfigured) -> str:
    """Return in a few words why a model cannot be used."""
    return f"needs {error.variable}" if isinstance(error, MissingKey) else mask_addresses(str(error))
