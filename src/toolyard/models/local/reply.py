"""Reads llama.cpp's chunks into events. Text is emitted at once; a line that may be a call is held back."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from toolyard.core.conversation.events import ArgumentsAppended, Finish, ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, Item, ModelText, Problem, Usage
from toolyard.core.ports import ModelRequest
from toolyard.models.local.prompt import build_call_prefix, list_usable_tools
from toolyard.models.shared.arguments import read_arguments


class LocalDelta(Struct, frozen=True):
    content: str | None = None


class LocalChoice(Struct, frozen=True):
    delta: LocalDelta = LocalDelta()
    finish_reason: str | None = None


class LocalUsage(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class LocalChunk(Struct, frozen=True):
    """The parts of a chunk that are read, or an error in its place."""

    choices: list[LocalChoice] = []
    usage: LocalUsage | None = None
    error: dict[str, object] | None = None


class LocalReply:
    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._openings = {build_call_prefix(tool.name): tool.name for tool in list_usable_tools(request)}
        self._text = ""
        self._held = ""
        self._finish = "stop"
        self._usage = Usage()
        self._problem: Problem | None = None

    def feed(self, chunk: LocalChunk) -> Iterator[ModelDelta]:
        if chunk.error is not None:
            self.fail(str(chunk.error.get("message", "llama.cpp failed")), chunk.error)
        if chunk.usage is not None:
            self._usage = Usage(input_tokens=chunk.usage.prompt_tokens, output_tokens=chunk.usage.completion_tokens)
        for choice in chunk.choices:
            self._finish = choice.finish_reason or self._finish
            yield from self._add_piece(choice.delta.content or "")

    def fail(self, message: str, details: Mapping[str, object] = {}) -> None:
        kind = "too_large" if details.get("type") == "exceed_context_size_error" else "model_error"
        self._problem = self._problem or Problem(error=message, error_type=kind)

    def end(self) -> Iterator[ModelDelta | TurnEnded | TurnFailed]:
        if self._problem is not None:
            yield TurnFailed(problem=self._problem)
            return
        calls = self._parse_calls()
        if not calls and self._held:
            yield from self._emit_text(self._held)
        for index, (call, written) in enumerate(calls):
            yield ArgumentsAppended(
                turn=self._request.turn, call_id=call.id, index=index, tool=call.tool, offset=0, text=written
            )
        clock, items = self._request.clock, list[Item]()
        if self._text:
            items.append(ModelText(id=clock.new_id("item"), at=clock.now(), text=self._text))
        items += [call for call, _ in calls]
        finish: Finish = "calls" if calls else "length" if self._finish == "length" else "stop"
        yield TurnEnded(items=tuple(items), finish=finish, usage=self._usage, model=self._request.model)

    def _add_piece(self, piece: str) -> Iterator[ModelDelta]:
        """Emit what is certainly text: everything before a line that begins like a call."""
        text = self._held + piece
        start = self._find_call_line(text) if self._openings else -1
        certain, self._held = (text, "") if start < 0 else (text[:start], text[start:])
        yield from self._emit_text(certain)

    def _find_call_line(self, text: str) -> int:
        """Return where the first line starts that begins, or may still begin, like a call; -1 if none does."""
        at = 0 if not self._text or self._text.endswith("\n") or self._held else text.find("\n") + 1 or -1
        while 0 <= at < len(text):
            line = text[at:].lstrip("\n")
            if any(line.startswith(begin) or begin.startswith(line) for begin in self._openings):
                return at
            at = text.find("\n", at) + 1 or -1
        return -1

    def _emit_text(self, text: str) -> Iterator[ModelDelta]:
        if text:
            yield TextAppended(turn=self._request.turn, offset=len(self._text.encode()), text=text)
            self._text += text

    def _parse_calls(self) -> list[tuple[Call, str]]:
        """Return the calls in what was held back, with their arguments as written; none if any line is not a call.

        Equal lines are one call: a small model that begins to repeat itself does not stop.
        """
        lines = [line for line in dict.fromkeys(self._held.strip().split("\n")) if line]
        calls = [self._parse_call(line, cut_off=self._finish == "length" and line is lines[-1]) for line in lines]
        return [call for call in calls if call] if all(calls) else []

    def _parse_call(self, line: str, *, cut_off: bool) -> tuple[Call, str] | None:
        begin = next((begin for begin in self._openings if line.startswith(begin)), None)
        if begin is None:
            return None
        written = line[len(begin) :]
        written = written if cut_off else written.removesuffix("}")
        arguments, clock = read_arguments([written], cut_off=cut_off), self._request.clock
        call = Call(
            id=clock.new_id("call"),
            at=clock.now(),
            tool=self._openings[begin],
            arguments=arguments.value,
            unreadable=arguments.unreadable,
        )
        return call, written
