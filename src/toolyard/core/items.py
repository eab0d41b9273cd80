"""The items of a conversation, a flat list, oldest first, independent of any provider.

They are final, so that code that looks at thousands of them can compare their types: `isinstance` is much slower.
"""

from typing import Literal, final

from msgspec import Struct
from msgspec.structs import astuple

Outcome = Literal["ok", "error", "denied", "expired", "timeout", "cancelled", "unknown"]


Confirm = Literal["no", "ask", "given"]


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failure as data: a message, an error type and details."""

    error: str
    error_type: str
    details: dict[str, object] = {}


@final
class TextPart(Struct, frozen=True, gc=False, kw_only=True, tag="text"):
    text: str


@final
class ImagePart(Struct, frozen=True, gc=False, kw_only=True, tag="image"):
    """An image by URL; a `data:` URL holds it inline."""

    url: str


@final
class FilePart(Struct, frozen=True, gc=False, kw_only=True, tag="file"):
    """A file by URL; a `data:` URL holds it inline."""

    url: str
    name: str = ""


Part = TextPart | ImagePart | FilePart


class Seal(Struct, frozen=True, gc=False, kw_only=True):
    """Opaque data that a provider wants back unchanged. It is sent to no other provider."""

    provider: str
    data: str


class Citation(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The source of a part of a text. `start` and `end` are character offsets in the text."""

    start: int
    end: int
    url: str = ""
    title: str = ""
    quote: str = ""


class _Item(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    id: str
    at: float


class _ModelItem(_Item, frozen=True, kw_only=True):
    """An item that the model wrote."""

    untrusted: str = ""
    """The untrusted sources that the model had been shown when it wrote this, as it may repeat them; empty if none."""


@final
class SystemText(_Item, frozen=True, kw_only=True, tag="system_text"):
    text: str


@final
class UserMessage(_Item, frozen=True, kw_only=True, tag="user_message"):
    parts: tuple[Part, ...]
    untrusted: str = ""
    """Who may have written what a summary tells, if that is not to be trusted."""
    seal: Seal | None = None
    """What the client told the provider about the parts, such as where to cache."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class Suggestion(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A reply that the user can pick: its label, and the text that is then sent."""

    label: str
    text: str
    edit: bool = False
    """Whether the text is an example: it is put into the field for the next message instead of being sent."""


@final
class ModelText(_ModelItem, frozen=True, kw_only=True, tag="model_text"):
    text: str
    citations: tuple[Citation, ...] = ()
    seal: Seal | None = None
    suggestions: tuple[Suggestion, ...] = ()
    logprobs: str = ""
    """The probabilities of the tokens, if the request asked for them: OpenAI's objects as JSON, without brackets."""


@final
class Reasoning(_ModelItem, frozen=True, kw_only=True, tag="reasoning"):
    """The model's reasoning. It is sent back only to the provider that signed it."""

    text: str
    provider: str = ""
    signature: str = ""


@final
class Call(_ModelItem, frozen=True, kw_only=True, tag="call"):
    """A call of a tool. `id` is Toolyard's and unique in the log; `provider_id` is the id that the model sent."""

    tool: str
    arguments: dict[str, object]
    provider_id: str = ""
    unreadable: str = ""
    """Why the arguments could not be parsed. A call with this set never runs."""
    ran_at: str = ""
    """The provider that ran the call itself. Its result comes from there, too, so that the call is never open here."""
    seal: Seal | None = None
    confirm: Confirm = "no"
    """`ask`: a person must confirm the call whatever the policy says. `given`: the user has confirmed it in a message.

    Only Toolyard's own models set this. A wire never does, so that no provider's answer can skip an approval.
    """


class ApprovalRecord(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a person decided on a call, and why."""

    by: str
    approved: bool
    reason: str = ""


@final
class Result(_Item, frozen=True, kw_only=True, tag="result"):
    """The result of a call. Every call gets exactly one, whatever happened."""

    call_id: str
    tool: str
    outcome: Outcome
    content: str
    """The text, or the JSON text, that the model reads."""
    error: Problem | None = None
    handle: str = ""
    """The handle of the whole result, if the content has only its head and tail."""
    whole_bytes: int = 0
    duration_ms: float = 0.0
    ran_at: str = ""
    """As in `Call`."""
    seal: Seal | None = None
    parts: tuple[Part, ...] = ()
    """Images and files of the result; the content names each. A wire may send them to a model that can read them."""
    native: str = ""
    """The handle of the whole answer as JSON in the venue's own format, if that holds more than the content."""
    is_text: bool = False
    """Whether the whole result is a text, not the JSON of a value. Set for calls of programs only: a text stays one."""
    redacted: tuple[str, ...] = ()
    """The names of the patterns of secrets that were replaced in the content."""
    untrusted: str = ""
    """Who may have written the content, if that is not to be trusted: it may hold instructions to the model."""
    decisions: tuple[ApprovalRecord, ...] = ()
    """Who approved or denied the call. For people: no wire sends it to a model. Folded, so that no entry has it."""


Item = SystemText | UserMessage | ModelText | Reasoning | Call | Result


MAX_COUNT = 1_000_000_000
"""The most tokens, or uses of a tool, that a turn counts."""


class Usage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens of a turn or a run, and uses of the provider's own tools, as the provider counted them."""

    input_tokens: int = 0
    """All of the input, including what was read from or written to the provider's cache."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of the input tokens that were read from the provider's cache."""
    cache_writes_5m: int = 0
    """Those of the input tokens that were written to the cache for five minutes, or for the provider's usual time."""
    cache_writes_1h: int = 0
    """Those of the input tokens that were written to the cache for an hour."""
    reasoning_tokens: int = 0
    """Those of the output tokens that are the model's reasoning, where the provider tells."""
    tool_uses: dict[str, int] = {}
    """How often the provider ran each of its own tools, as far as it charges for them by use."""

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    def bound(self) -> "Usage":
        """Return the usage with counts from 0 to MAX_COUNT: a provider may report others, which nobody could add up."""
        *counts, uses = astuple(self)
        if not uses and min(counts) >= 0 and max(counts) <= MAX_COUNT:
            return self
        names = self.__struct_fields__
        bounded = {name: min(max(0, count), MAX_COUNT) for name, count in zip(names, counts, strict=False)}
        return Usage(**bounded, tool_uses={name: min(max(0, count), MAX_COUNT) for name, count in uses.items()})

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_writes_5m=self.cache_writes_5m + other.cache_writes_5m,
            cache_writes_1h=self.cache_writes_1h + other.cache_writes_1h,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            tool_uses=_add_uses(self.tool_uses, other.tool_uses) if other.tool_uses else self.tool_uses,
        )


def _add_uses(uses: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    return {name: uses.get(name, 0) + others.get(name, 0) for name in {**uses, **others}}


MAX_ID_CHARS = 64
"""The most characters of an id that is handed to clients: some of them refuse longer ones."""


def child_id(parent_id: str, position: int) -> str:
    """Return the id of a program's call number `position`: the same whenever the program is run again."""
    return f"{parent_id}.{position}"


def get_program_id(call_id: str) -> str:
    """Return the id of the call whose program makes this call; empty for a call of a model."""
    return call_id.rpartition(".")[0]


def result_id(call_id: str) -> str:
    """Return the id of a call's result, derived from the call's id as every call has exactly one result."""
    return f"{call_id}.result"
