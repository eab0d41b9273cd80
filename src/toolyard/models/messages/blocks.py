"""Turns the blocks of a Messages reply into items. Pure.

Adjacent text blocks become one text. The results of the provider's own tools are kept twice: readable, and sealed as
the provider sent them, because it requires them back unchanged.
"""

import contextlib
from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from toolyard.core.items import (
    Call,
    Citation,
    Item,
    ModelText,
    Reasoning,
    Result,
)
from toolyard.core.messages_blocks import (
    CODE_EXECUTION_TOOLS,
    REDACTED_PREFIX,
    RESULT_SUFFIX,
    SealedCall,
    SealedResult,
    TextPiece,
    parse_result,
    seal,
)
from toolyard.core.ports import Clock
from toolyard.models.messages.wire_types import MessagesBlock, MessagesCitation
from toolyard.models.shared.arguments import Arguments, read_arguments
from toolyard.models.shared.hosted_tools import build_citation, build_hosted_result


class StreamedBlock:
    """One block of the reply, as far as it has arrived."""

    __slots__ = ("block", "call_id", "citations", "damaged", "fragments", "name", "number", "signature", "written")

    def __init__(self, block: MessagesBlock, damaged: bool = False) -> None:
        self.block = block
        self.name = block.name
        self.fragments: list[str] = []
        self.signature = block.signature
        self.citations = block.citations or []
        self.damaged = damaged
        self.call_id = ""
        """Toolyard's id of a call."""
        self.number = 0
        """The number of a call within the turn."""
        self.written = 0
        """The bytes of a call's arguments so far."""

    @property
    def is_call(self) -> bool:
        return self.block.type in ("tool_use", "server_tool_use")

    @property
    def text(self) -> str:
        return "".join(self.fragments)

    def parse_arguments(self, *, cut_off: bool) -> Arguments:
        """Return the streamed arguments; some providers send them whole in the start of the block instead."""
        whole_input = self.block.input
        if not self.fragments and whole_input:
            return read_arguments([msgspec.json.encode(whole_input).decode()], damaged=self.damaged)
        return read_arguments(self.fragments, cut_off=cut_off, damaged=self.damaged)


class MessagesItemBuilder:
    """Builds the items of one turn."""

    def __init__(self, clock: Clock, provider: str, *, cut_off: bool) -> None:
        self._clock = clock
        self._at = clock.now()
        self._provider = provider
        self._cut_off = cut_off

    def build_items(self, blocks: Sequence[StreamedBlock], open_calls: Iterable[Call]) -> list[Item]:
        """Return the items in the model's order, except that calls for Toolyard to run come last."""
        items: list[Item] = []
        toolyard_calls: list[Item] = []
        at_provider = {call.provider_id: call for call in open_calls}
        for kind, run in groupby(blocks, key=lambda streamed: streamed.block.type):
            if kind == "text":
                items += self._build_text([streamed for streamed in run if streamed.fragments])
            elif kind == "tool_use":
                toolyard_calls += [self._build_call(streamed) for streamed in run]
            elif kind == "server_tool_use":
                calls = [self._build_provider_call(streamed) for streamed in run]
                at_provider.update({call.provider_id: call for call in calls})
                items += calls
            elif kind.endswith(RESULT_SUFFIX):
                answers = [(streamed, at_provider.pop(streamed.block.tool_use_id, None)) for streamed in run]
                items += [self._build_result(streamed, call) for streamed, call in answers if call is not None]
            else:
                items += [
                    self._build_reasoning(streamed) for streamed in run if kind in ("thinking", "redacted_thinking")
                ]
        return [*items, *toolyard_calls]

    def _build_text(self, blocks: Sequence[StreamedBlock]) -> list[ModelText]:
        if not blocks:
            return []
        citations: list[Citation] = []
        start = 0
        for streamed in blocks:
            end = start + len(streamed.text)
            citations += [_build_citation(citation, start, end) for citation in streamed.citations]
            start = end
        sealed = seal(self._provider, _build_pieces(blocks)) if citations else None
        text = "".join(streamed.text for streamed in blocks)
        item = ModelText(id=self._clock.new_id("text"), at=self._at, text=text, citations=tuple(citations), seal=sealed)
        return [item]

    def _build_reasoning(self, streamed: StreamedBlock) -> Reasoning:
        data = streamed.block.data
        return Reasoning(
            id=self._clock.new_id("reasoning"),
            at=self._at,
            text=streamed.text,
            provider=self._provider,
            signature=f"{REDACTED_PREFIX}{data}" if streamed.block.type == "redacted_thinking" else streamed.signature,
        )

    def _build_call(self, streamed: StreamedBlock) -> Call:
        arguments = streamed.parse_arguments(cut_off=self._cut_off)
        return Call(
            id=streamed.call_id,
            at=self._at,
            tool=streamed.name,
            arguments=arguments.value,
            provider_id=streamed.block.id,
            unreadable=arguments.unreadable,
        )

    def _build_provider_call(self, streamed: StreamedBlock) -> Call:
        return msgspec.structs.replace(
            self._build_call(streamed),
            tool=CODE_EXECUTION_TOOLS.get(streamed.name, streamed.name),
            ran_at=self._provider,
            seal=seal(self._provider, SealedCall(streamed.name, streamed.block.caller)),
        )

    def _build_result(self, streamed: StreamedBlock, call: Call) -> Result:
        outcome, content, error = parse_result(streamed.block.content, call.tool)
        sealed = seal(self._provider, SealedResult(streamed.block.type, streamed.block.content))
        return build_hosted_result(call, self._at, outcome, content, error, seal=sealed)


def _build_citation(raw: dict[str, object], start: int, end: int) -> Citation:
    parsed = MessagesCitation()
    with contextlib.suppress(msgspec.ValidationError):
        parsed = msgspec.convert(raw, MessagesCitation)
    return build_citation(
        start, end, parsed.url or parsed.source, parsed.title or parsed.document_title, parsed.cited_text
    )


def _build_pieces(blocks: Sequence[StreamedBlock]) -> list[TextPiece]:
    """Return the length and citations of each block of a text.

    The item holds one text, but the provider requires the citations back on the blocks that they came with: the
    lengths say where to split the text again.
    """
    return [TextPiece(len(streamed.text), [_to_sendable(raw) for raw in streamed.citations]) for streamed in blocks]


def _to_sendable(citation: dict[str, object]) -> dict[str, object]:
    """Return a citation as the provider accepts it back: it sends `file_id`, which requests do not have."""
    return {name: value for name, value in citation.items() if name != "file_id"}
