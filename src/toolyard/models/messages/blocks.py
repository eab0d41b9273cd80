"""The blocks of a Messages reply → items. Pure.

Neighbouring texts are one text. What the provider's own tools came to is told in our words, and kept sealed as the
provider sent it, because it wants it back.
"""

import contextlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

import msgspec

from toolyard.core.items import (
    Call,
    Citation,
    Item,
    ModelText,
    Outcome,
    Problem,
    Reasoning,
    Result,
    Seal,
)
from toolyard.core.ports import Clock
from toolyard.models.arguments import Arguments, read_arguments
from toolyard.models.hosted_results import build_citation, build_hosted_result
from toolyard.models.messages.events import MessagesBlock, MessagesCitation

CODE_EXECUTION_TOOLS = {"bash_code_execution": "code_execution", "text_editor_code_execution": "code_execution"}
"""What one tool of ours is called by its parts at the provider."""
HOSTED_TOOLS = frozenset({"web_search", "code_execution", *CODE_EXECUTION_TOOLS})
"""The names of its own tools that the provider takes back."""
REDACTED_PREFIX = "redacted_thinking:"
"""Begins a signature that stands for thinking which the provider shows to nobody."""
RESULT_SUFFIX = "_tool_result"


class StreamedBlock:
    """One block as far as the model has said it."""

    __slots__ = ("block", "citations", "damaged", "fragments", "name", "number", "signature", "written")

    def __init__(self, block: MessagesBlock, damaged: bool = False) -> None:
        self.block = block
        self.name = block.name
        self.fragments: list[str] = []
        self.signature = block.signature
        self.citations = block.citations or []
        self.damaged = damaged
        self.number = 0
        """Of a call: which one of the turn it is."""
        self.written = 0
        """Of a call: the bytes of its arguments so far."""

    @property
    def is_call(self) -> bool:
        return self.block.type in ("tool_use", "server_tool_use")

    @property
    def text(self) -> str:
        return "".join(self.fragments)

    def parse_arguments(self, *, cut_off: bool) -> Arguments:
        """As they were streamed; some providers send them whole as the block begins."""
        given = self.block.input
        if not self.fragments and given:
            return read_arguments([msgspec.json.encode(given).decode()], damaged=self.damaged)
        return read_arguments(self.fragments, cut_off=cut_off, damaged=self.damaged)


class SealedCall(msgspec.Struct, omit_defaults=True):
    """What is sealed of a call: its name at the provider, and who called it there."""

    name: str
    caller: object = None


class SealedResult(msgspec.Struct):
    """What is sealed of a result: the type of its block, and what is in it."""

    type: str
    content: object


class MessagesItemBuilder:
    """Makes the items of one turn."""

    def __init__(self, clock: Clock, provider: str, *, cut_off: bool) -> None:
        self._clock = clock
        self._at = clock.now()
        self._provider = provider
        self._cut_off = cut_off

    def build_items(self, blocks: Sequence[StreamedBlock], open_calls: Iterable[Call]) -> list[Item]:
        """In the model's order, but for the calls that are ours to run: they come last."""
        found: list[Item] = []
        ours: list[Item] = []
        at_provider = {call.provider_id: call for call in open_calls}
        for kind, run in groupby(blocks, key=lambda one: one.block.type):
            if kind == "text":
                found += self._build_text([one for one in run if one.fragments])
            elif kind == "tool_use":
                ours += [self._build_call(one) for one in run]
            elif kind == "server_tool_use":
                calls = [self._build_provider_call(one) for one in run]
                at_provider.update({call.provider_id: call for call in calls})
                found += calls
            elif kind.endswith(RESULT_SUFFIX):
                answers = [(one, at_provider.pop(one.block.tool_use_id, None)) for one in run]
                found += [self._build_result(one, call) for one, call in answers if call is not None]
            else:
                found += [self._build_reasoning(one) for one in run if kind in ("thinking", "redacted_thinking")]
        return [*found, *ours]

    def _build_text(self, said: Sequence[StreamedBlock]) -> list[ModelText]:
        if not said:
            return []
        citations: list[Citation] = []
        start = 0
        for one in said:
            end = start + len(one.text)
            citations += [_build_citation(given, start, end) for given in one.citations]
            start = end
        seal = Seal(provider=self._provider, data=_seal_text(said)) if citations else None
        whole = "".join(one.text for one in said)
        item = ModelText(id=self._clock.new_id("text"), at=self._at, text=whole, citations=tuple(citations), seal=seal)
        return [item]

    def _build_reasoning(self, said: StreamedBlock) -> Reasoning:
        data = said.block.data
        return Reasoning(
            id=self._clock.new_id("reasoning"),
            at=self._at,
            text=said.text,
            provider=self._provider,
            signature=f"{REDACTED_PREFIX}{data}" if said.block.type == "redacted_thinking" else said.signature,
        )

    def _build_call(self, said: StreamedBlock) -> Call:
        arguments = said.parse_arguments(cut_off=self._cut_off)
        return Call(
            id=self._clock.new_id("call"),
            at=self._at,
            tool=said.name,
            arguments=arguments.value,
            provider_id=said.block.id,
            unreadable=arguments.unreadable,
        )

    def _build_provider_call(self, said: StreamedBlock) -> Call:
        sealed = msgspec.json.encode(SealedCall(said.name, said.block.caller)).decode()
        return msgspec.structs.replace(
            self._build_call(said),
            tool=CODE_EXECUTION_TOOLS.get(said.name, said.name),
            ran_at=self._provider,
            seal=Seal(provider=self._provider, data=sealed),
        )

    def _build_result(self, said: StreamedBlock, call: Call) -> Result:
        outcome, content, error = _parse_result(said.block.content, call.tool)
        sealed = msgspec.json.encode(SealedResult(said.block.type, said.block.content)).decode()
        return build_hosted_result(
            call, self._at, outcome, content, error, seal=Seal(provider=self._provider, data=sealed)
        )


def _parse_result(content: object, tool: str) -> tuple[Outcome, str, Problem | None]:
    """What a provider's result says to a reader: all of it but what only the provider can read."""
    value = _strip_encrypted(content)
    code = cast("dict[str, object]", value).get("error_code") if isinstance(value, dict) else None
    if code is None:
        return "ok", msgspec.json.encode(value).decode(), None
    problem = Problem(error=f"{tool} failed: {code}", error_type="execution_error", details={"code": code})
    return "error", problem.error, problem


def _strip_encrypted(value: object) -> object:
    if isinstance(value, list):
        return [_strip_encrypted(one) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        given = cast("dict[str, object]", value).items()
        return {
            name: _strip_encrypted(one) for name, one in given if name != "type" and not name.startswith("encrypted_")
        }
    return value


def _build_citation(given: dict[str, object], start: int, end: int) -> Citation:
    found = MessagesCitation()
    with contextlib.suppress(msgspec.ValidationError):
        found = msgspec.convert(given, MessagesCitation)
    return build_citation(start, end, found.url or found.source, found.title or found.document_title, found.cited_text)


def _seal_text(said: Sequence[StreamedBlock]) -> str:
    """The characters of each block of a text, and its citations."""
    return msgspec.json.encode(
        [(len(one.text), [_to_sendable(given) for given in one.citations]) for one in said]
    ).decode()


def _to_sendable(citation: dict[str, object]) -> dict[str, object]:
    """A citation as the provider takes it back, which is not quite as it sends it."""
    return {name: value for name, value in citation.items() if name != "file_id"}
