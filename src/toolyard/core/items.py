"""What a conversation is made of: a flat list of items, oldest first. It does not know any provider."""

from typing import Literal

from msgspec import Struct

Outcome = Literal["ok", "error", "denied", "expired", "timeout", "cancelled", "unknown"]


Confirm = Literal["no", "ask", "given"]


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failure as data: what happened in words, its type, and what is known about it."""

    error: str
    error_type: str
    details: dict[str, object] = {}


class TextPart(Struct, frozen=True, gc=False, kw_only=True, tag="text"):
    text: str


class ImagePart(Struct, frozen=True, gc=False, kw_only=True, tag="image"):
    """An image by address; a `data:` address carries it inline."""

    url: str


class FilePart(Struct, frozen=True, gc=False, kw_only=True, tag="file"):
    """A file by address; a `data:` address carries it inline."""

    url: str
    name: str = ""


Part = TextPart | ImagePart | FilePart


class Seal(Struct, frozen=True, gc=False, kw_only=True):
    """What a provider wants back as it sent it. Nobody else reads it, and it goes to no other provider."""

    provider: str
    data: str


class Citation(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Where a piece of a text comes from. `start` and `end` count the characters of the text."""

    start: int
    end: int
    url: str = ""
    title: str = ""
    quote: str = ""


class _Item(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="type"):
    id: str
    at: float


class SystemText(_Item, frozen=True, kw_only=True, tag="system_text"):
    text: str


class UserMessage(_Item, frozen=True, kw_only=True, tag="user_message"):
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class Suggestion(Struct, frozen=True, gc=False, kw_only=True):
    """A reply that a person may pick instead of writing one: what it is called, and what is then sent."""

    label: str
    text: str


class ModelText(_Item, frozen=True, kw_only=True, tag="model_text"):
    text: str
    citations: tuple[Citation, ...] = ()
    seal: Seal | None = None
    suggestions: tuple[Suggestion, ...] = ()


class Reasoning(_Item, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought; sent back only to the provider that signed it."""

    text: str
    provider: str = ""
    signature: str = ""


class Call(_Item, frozen=True, kw_only=True, tag="call"):
    """The model asks for one tool to be run. `id` is ours, unique in the log; `provider_id` is what the model sent."""

    tool: str
    arguments: dict[str, object]
    provider_id: str = ""
    unreadable: str = ""
    """Why the arguments could not be read, if so; such a call is never run."""
    ran_at: str = ""
    """The provider that ran it itself, if one did: its result comes from there too, and it never opens."""
    seal: Seal | None = None
    confirm: Confirm = "no"
    """Whether a person has to confirm it whatever the policy says (`ask`), or has done so in a message (`given`).

    Only a model of ours says so: a wire never does.
    """


class Result(_Item, frozen=True, kw_only=True, tag="result"):
    """What a call came to. Every call gets exactly one, whatever happened."""

    call_id: str
    tool: str
    outcome: Outcome
    content: str
    """What the model is told: a text, or JSON as text."""
    error: Problem | None = None
    handle: str = ""
    """Where the whole result is kept if the model was given only its head and tail."""
    whole_bytes: int = 0
    duration_ms: float = 0.0
    ran_at: str = ""
    """As in its call."""
    seal: Seal | None = None
    parts: tuple[Part, ...] = ()
    """Images and files that came with it; the content names each. A wire whose model can look at them may send them."""
    native: str = ""
    """Where the whole answer is kept, as JSON and in its venue's own form, if that holds more than the content."""


Item = SystemText | UserMessage | ModelText | Reasoning | Call | Result


class Usage(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens of one turn or of one run, as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


def result_id(call_id: str) -> str:
    """A call has one result, so the result's id follows from the call's."""
    return f"{call_id}.result"
