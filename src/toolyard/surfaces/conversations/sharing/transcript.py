"""A conversation as people read it: messages with their calls and results, for shared links and Markdown files."""

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.items import (
    ApprovalRecord,
    Call,
    FilePart,
    Item,
    ModelText,
    Outcome,
    Part,
    Reasoning,
    Result,
    SystemText,
    TextPart,
    UserMessage,
)
from toolyard.core.store import ConversationCard
from toolyard.engine.service.feedback import RunFeedback
from toolyard.surfaces.shared.chat_messages import to_iso_time

_HEADINGS = {"user": "User", "assistant": "Assistant", "system": "System"}


class TranscriptCall(Struct, kw_only=True):
    """A call of a tool. Its arguments and its result are null if they were left out."""

    id: str
    tool: str
    outcome: Outcome | None = None
    """Null if the call had not ended."""
    arguments: dict[str, object] | None = None
    result: str | None = None
    decisions: list[ApprovalRecord] = []
    """Who approved or denied the call, and why; left out with the result."""


class TranscriptMessage(Struct, kw_only=True):
    id: str
    role: str
    """`user`, `assistant` or `system`."""
    timestamp: str
    text: str = ""
    attachments: list[str] = []
    """The names of images and files, which are not part of the transcript."""
    reasoning: str = ""
    calls: list[TranscriptCall] = []


class Transcript(Struct, kw_only=True):
    title: str
    user: str
    messages: list[TranscriptMessage]


class TranscriptContent(Struct, frozen=True, kw_only=True):
    """What a transcript shows besides the messages of the user and the model."""

    arguments: bool = False
    """The arguments and the results of calls."""
    reasoning: bool = False
    system: bool = False


def build_transcript(card: ConversationCard, items: Iterable[Item], content: TranscriptContent) -> Transcript:
    builder = _TranscriptBuilder(content)
    for item in items:
        builder.add(item)
    return Transcript(title=card.title, user=card.user, messages=builder.messages)


_HasRoom = Callable[[TranscriptMessage], bool]


class _TranscriptBuilder:
    """Collects the items of a turn in one message: its reasoning, its text and its calls with their results."""

    def __init__(self, content: TranscriptContent) -> None:
        self.messages: list[TranscriptMessage] = []
        self._content = content
        self._calls: dict[str, TranscriptCall] = {}

    def add(self, item: Item) -> None:
        match item:
            case UserMessage(parts=parts):
                attachments = [_name_part(part) for part in parts if not isinstance(part, TextPart)]
                self._start(item, "user").text = item.text
                self.messages[-1].attachments = attachments
            case SystemText(text=text):
                if self._content.system:
                    self._start(item, "system").text = text
            case Reasoning(text=text):
                if self._content.reasoning and text:
                    message = self._join(item, has_room=lambda message: not message.text and not message.calls)
                    message.reasoning = f"{message.reasoning}\n\n{text}".strip()
            case ModelText(text=text):
                self._join(item, has_room=lambda message: not message.text and not message.calls).text = text
            case Call():
                arguments = item.arguments if self._content.arguments else None
                call = self._calls[item.id] = TranscriptCall(id=item.id, tool=item.tool, arguments=arguments)
                message = self._join(item, has_room=lambda message: not any(call.outcome for call in message.calls))
                message.calls = [*message.calls, call]
            case Result():
                self._close_call(item)

    def _close_call(self, result: Result) -> None:
        if call := self._calls.get(result.call_id):
            call.outcome = result.outcome
            if self._content.arguments:
                call.result, call.decisions = result.content, list(result.decisions)

    def _start(self, item: Item, role: str) -> TranscriptMessage:
        self.messages.append(TranscriptMessage(id=item.id, role=role, timestamp=to_iso_time(item.at)))
        return self.messages[-1]

    def _join(self, item: Item, has_room: _HasRoom) -> TranscriptMessage:
        """Return the assistant's message that the item belongs to, or a new one."""
        last = self.messages[-1] if self.messages else None
        return last if last and last.role == "assistant" and has_room(last) else self._start(item, "assistant")


def render_markdown(transcript: Transcript, feedback: Sequence[RunFeedback] = ()) -> str:
    """Return a transcript as Markdown, with texts as quotes and calls with what is known of them.

    What people think of its answers is at the end.
    """
    blocks = [f"# {_to_line(transcript.title) or 'Conversation'}"]
    for message in transcript.messages:
        blocks.append(f"## {_HEADINGS[message.role]} · {message.timestamp}")
        if message.reasoning:
            blocks += ["*Reasoning*", _quote(message.reasoning)]
        if text := message.text.strip():
            blocks.append(_quote(text))
        blocks += [f"- attached: {_to_line(name)}" for name in message.attachments]
        for call in message.calls:
            blocks += _render_call(call)
    if feedback:
        blocks.append("## Feedback")
    for opinion in sorted(feedback, key=lambda opinion: opinion.at):
        rating = {"up": "Good answer", "down": "Bad answer"}[opinion.rating]
        blocks.append(f"- {rating}, by {_to_line(opinion.by)} · {to_iso_time(opinion.at)}")
        if note := opinion.note.strip():
            blocks.append(_quote(note))
    return "\n\n".join(blocks) + "\n"


def _render_call(call: TranscriptCall) -> Sequence[str]:
    blocks = [f"**{_to_line(call.tool)}** ({call.outcome or 'not ended'})"]
    blocks += [_describe_decision(decision) for decision in call.decisions]
    if call.arguments is not None:
        blocks.append(_fence(msgspec.json.format(msgspec.json.encode(call.arguments), indent=2).decode(), "json"))
    if call.result is not None:
        blocks.append(_fence(call.result))
    return blocks


def _describe_decision(decision: ApprovalRecord) -> str:
    reason = f": {_to_line(decision.reason)}" if decision.reason else ""
    return f"- {'approved' if decision.approved else 'denied'} by {_to_line(decision.by)}{reason}"


def _quote(text: str) -> str:
    """Return a text as a quote. Its headings, lists and code keep their look and end with the quote, closed or not."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fence(text: str, language: str = "") -> str:
    """Return a code block. Its fence is longer than any run of backticks in the text, which could end it otherwise."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _to_line(text: str) -> str:
    """Return a name on one line, without what would make it a link, a picture or HTML."""
    return re.sub(r"([\\`*\[\]<>])", r"\\\1", " ".join(text.split()))


def _name_part(part: Part) -> str:
    return (part.name or "file") if isinstance(part, FilePart) else "image"
