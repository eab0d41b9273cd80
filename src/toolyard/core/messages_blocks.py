"""What Anthropic's Messages API wants back unchanged, as the seals of items hold it.

The model wire reads replies into these seals and writes them into requests. The surface of the same API does the
opposite with its clients. A seal comes from a client, too: each struct names all that may be in it.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from toolyard.core.items import Outcome, Problem, Seal
from toolyard.core.json_types import is_list, is_object

WIRE = "messages"
"""The name of the API's wire."""
MAX_MARKS = 4
"""How many marks a request may have."""
CODE_EXECUTION_TOOLS = {"bash_code_execution": "code_execution", "text_editor_code_execution": "code_execution"}
"""The provider's names for the parts of one tool, and Toolyard's name for it."""
HOSTED_TOOLS = frozenset({"web_search", "code_execution", *CODE_EXECUTION_TOOLS})
"""The names of the provider's own tools that it accepts in a history."""
REDACTED_PREFIX = "redacted_thinking:"
"""Begins the signature of a `redacted_thinking` block, whose text the provider encrypts."""
RESULT_SUFFIX = "_tool_result"
T = TypeVar("T")


class Mark(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A `cache_control`: the provider is to cache what comes before it, for its usual time or a longer one."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class SealedCall(Struct, omit_defaults=True):
    """The sealed part of a provider's call: its name at the provider, and its caller there."""

    name: str
    caller: object = None


class SealedResult(Struct):
    """The sealed part of a provider's result: the type and the content of its block."""

    type: str
    content: object


class TextPiece(Struct, array_like=True):
    """One block of a text: its length, its citations, and its mark."""

    length: int
    citations: list[dict[str, object]] = []
    cache_control: Mark | None = None


class BlockFields(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a client says of one block besides its content."""

    cache_control: Mark | None = None
    citations: dict[str, object] | None = None
    """Whether a document is cited."""
    context: str | None = None
    """What a document is about, which is not cited."""
    tool_references: list[str] | None = None
    """The tools that a result makes known to the model, in place of its content."""


class ToolFields(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a client says of its tool besides the name, the description and the schema."""

    cache_control: Mark | None = None
    defer_loading: bool | None = None
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    input_examples: list[dict[str, object]] | None = None
    definition: dict[str, object] | None = None
    """The whole definition of a tool that the API defines itself and the client runs, such as its text editor."""


class SystemBlock(Struct, omit_defaults=True):
    text: str
    cache_control: Mark | None = None


class ThinkingFields(Struct, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """How much the model is to think, and what it shows of that."""

    type: str
    budget_tokens: int | None = None
    display: Literal["summarized", "omitted", "updates"] | None = None
    block_binding: dict[Literal["prefix_mismatch_behavior"], Literal["error", "drop_block"] | None] | None = None
    """What happens to thinking of another conversation."""


class RequestFields(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a request says in the words of this API and of no other."""

    system: list[SystemBlock] = []
    thinking: ThinkingFields | None = None
    effort: str = ""
    betas: list[str] = []


def join_system(blocks: Sequence[SystemBlock]) -> str:
    """Return the system text of a client as one text, which is part of the request's."""
    return "\n\n".join(block.text for block in blocks)


def seal(provider: str, fields: object) -> Seal:
    return Seal(provider=provider, data=msgspec.json.encode(fields).decode())


def unseal(sealed: Seal | None, provider: str, decode: Callable[[str], T]) -> T | None:
    """Return what a seal of this provider holds; None if it is another's, or holds anything else."""
    if sealed is None or sealed.provider != provider:
        return None
    try:
        return decode(sealed.data)
    except msgspec.DecodeError:
        return None


def parse_result(content: object, tool: str) -> tuple[Outcome, str, Problem | None]:
    """Return the outcome and readable content of a provider's result, without what only the provider can decrypt."""
    value = _strip_encrypted(content)
    code = value.get("error_code") if is_object(value) else None
    if code is None:
        return "ok", msgspec.json.encode(value).decode(), None
    problem = Problem(error=f"{tool} failed: {code}", error_type="execution_error", details={"code": code})
    return "error", problem.error, problem


def _strip_encrypted(value: object) -> object:
    if is_list(value):
        return [_strip_encrypted(item) for item in value]
    if is_object(value):
        return {
            name: _strip_encrypted(field)
            for name, field in value.items()
            if name != "type" and not name.startswith("encrypted_")
        }
    return value


decode_call = msgspec.json.Decoder(SealedCall).decode
decode_result = msgspec.json.Decoder(SealedResult).decode
decode_pieces = msgspec.json.Decoder(list[TextPiece]).decode
decode_block = msgspec.json.Decoder(BlockFields).decode
decode_parts = msgspec.json.Decoder(list[BlockFields]).decode
decode_tool = msgspec.json.Decoder(ToolFields).decode
decode_request = msgspec.json.Decoder(RequestFields).decode
