"""Drives one program in its sandbox: hands out its calls, gives it their results, and notices when it has changed."""

from collections.abc import Callable, Mapping
from time import monotonic

import msgspec
import pydantic_monty as monty

from toolyard.core.items import Call, Outcome
from toolyard.core.ports import Failure, ProgramCall, ProgramCalls, ProgramResult, Value
from toolyard.core.tools.definition import Tool
from toolyard.venues.code.json_values import NotJson, TooLarge, encode_plain_value
from toolyard.venues.code.results import build_program_failure, build_program_value
from toolyard.venues.code.stubs import name_function

MAX_CROWDED_IDLE_S = 0.2
"""How long a program keeps its sandbox while it waits for calls and another program waits for a sandbox.

Shorter calls end meanwhile, and cost less than running the program again.
"""
_EXCEPTIONS: dict[Outcome, type[Exception]] = {
    "denied": PermissionError,
    "expired": TimeoutError,
    "timeout": TimeoutError,
}


class NondeterministicProgram(Exception):
    """A program that was run again did something else than the log says."""


class Dormant(Exception):
    """No result came for a while: the program gives its sandbox back, and is run again when one has come."""


class Program:
    """One pass through a program, from its start."""

    def __init__(self, call: Call, calls: ProgramCalls, idle_s: float, is_crowded: Callable[[], bool]) -> None:
        """`is_crowded` returns whether another program waits for a sandbox."""
        self.call = call
        self.calls = calls
        self.code = str(call.arguments["code"])
        self.seen = 0
        """How many results the program has been given."""
        self._limits = calls.limits
        self._idle_s = idle_s
        self._is_crowded = is_crowded
        self._source = self.code.encode()
        self._position = 0
        self._unrecorded: list[ProgramCall] = []
        self._sandbox_ids: dict[int, int] = {}
        """The sandbox's ids of the calls, by position."""
        self._printed = bytearray()
        self._noted_bytes = 0
        """How much of what was printed the calls have been told, or the log has from an earlier run."""
        self._dropped_bytes = 0

    @property
    def printed(self) -> str:
        text = self._printed.decode(errors="ignore")  # the last character may have been cut
        return f"{text}\n… [{self._dropped_bytes:,} more bytes were printed]" if self._dropped_bytes else text

    def print(self, _stream: str, text: str) -> None:
        body = text.encode(errors="replace")
        room = self._limits.program_printed_bytes - len(self._printed)
        self._printed += body[:room]
        self._dropped_bytes += max(0, len(body) - room)

    async def drive(self, snapshot: "monty.AsyncSnapshot", functions: Mapping[str, Tool]) -> Value | Failure:
        """Answer the sandbox until the program ends."""
        while True:
            if isinstance(snapshot, monty.MontyComplete):
                self._check_recorded()
                return await self._finish(snapshot.output)
            if isinstance(snapshot, monty.AsyncFunctionSnapshot):
                snapshot = await self._make_call(snapshot, functions)
            elif isinstance(snapshot, monty.AsyncFutureSnapshot):
                position, answer = await self._wait_result()
                snapshot = await snapshot.resume({self._sandbox_ids[position]: answer})
            elif snapshot.variable_name in functions:
                snapshot = await snapshot.resume(value=_build_reference(snapshot.variable_name))
            else:
                snapshot = await snapshot.resume()  # an unknown name: NameError in the program

    async def _make_call(
        self, snapshot: "monty.AsyncFunctionSnapshot", functions: Mapping[str, Tool]
    ) -> "monty.AsyncSnapshot":
        name = str(snapshot.function_name)
        recorded = self.calls.find_recorded(self._position)
        if snapshot.is_os_function:
            return await snapshot.resume_not_handled()
        if name in functions:
            tool = functions[name].name
        elif recorded is not None and name_function(recorded.call.tool) == name:
            tool = recorded.call.tool  # it is not there any more, but was when the program ran first
        else:
            return await snapshot.resume({"exception": NameError(f"name {name!r} is not defined")})
        try:
            arguments = await self._read_arguments(name, snapshot)
        except (TypeError, ValueError) as error:
            return await snapshot.resume({"exception": error})
        if self._position >= self._limits.program_calls:
            error = RuntimeError(f"a program may make {self._limits.program_calls} calls")
            return await snapshot.resume({"exception": error})
        if recorded is None:
            line = self._source.count(b"\n", 0, snapshot.position.start) + 1
            self._unrecorded.append(ProgramCall(tool, arguments, line))
        elif recorded.call.tool != tool or _encode(recorded.call.arguments) != _encode(arguments):
            raise NondeterministicProgram(
                f"call {self._position + 1} of the program was of {recorded.call.tool}, and when the program was run "
                f"again it was of {tool} or had other arguments"
            )
        self._sandbox_ids[self._position] = snapshot.call_id
        self._position += 1
        return await snapshot.resume({"future": ...})

    async def _read_arguments(self, name: str, snapshot: "monty.AsyncFunctionSnapshot") -> dict[str, object]:
        if snapshot.args:
            raise TypeError(f"{name}() takes keyword arguments only")
        limit = self._limits.program_argument_bytes
        try:
            encoded = await encode_plain_value(snapshot.kwargs, limit)
        except NotJson as error:
            raise TypeError(f"{name}(): an argument cannot be sent: {error}") from None
        except TooLarge:
            raise ValueError(f"{name}(): the arguments are too large; a call may have {limit:,} bytes") from None
        return msgspec.json.decode(encoded, type=dict[str, object])

    def _check_recorded(self) -> None:
        """Raise NondeterministicProgram unless the program has made exactly the calls that it had made here before."""
        next_call = self.calls.find_recorded(self._position)
        if next_call is not None and next_call.seen <= self.seen:
            raise NondeterministicProgram(
                f"the program had called {next_call.call.tool} here, and did not when it was run again"
            )
        if self._unrecorded and self.seen < self.calls.recorded_seen:
            raise NondeterministicProgram(
                f"the program called {self._unrecorded[0].tool} when it was run again, and had not before"
            )

    async def _wait_result(self) -> "tuple[int, monty.ExternalSettledResult]":
        """Return the next result: one at a time, in the order of the log, which is all that a replay has to repeat."""
        self._check_recorded()
        self._note_printed()
        if self._unrecorded:
            self.calls.request(self._unrecorded, self.seen)
            self._unrecorded = []
        result = await self._wait_idle()
        self.seen += 1
        if result.problem is None:
            return result.position, {"return_value": result.value}
        return result.position, {"exception": _to_exception(result)}

    def _note_printed(self) -> None:
        """Tell what was printed since the program last waited, unless it is run again up to here."""
        if len(self._printed) > self._noted_bytes:
            if self.seen > self.calls.recorded_seen:
                self.calls.note_printed(self._printed[self._noted_bytes :].decode(errors="ignore"))
            self._noted_bytes = len(self._printed)

    async def _wait_idle(self) -> ProgramResult:
        """Return the next result. Raise Dormant after `idle_s`, or soon if another program waits for a sandbox."""
        until = monotonic() + self._idle_s
        while True:
            result = await self.calls.wait_result(self.seen, min(MAX_CROWDED_IDLE_S, self._idle_s))
            if result is not None:
                return result
            if self._is_crowded() or monotonic() >= until:
                raise Dormant

    async def _finish(self, output: object) -> Value | Failure:
        limit = self._limits.program_value_bytes
        try:
            encoded = await encode_plain_value(output, limit)
        except NotJson as error:
            return build_program_failure(f"the last expression cannot be returned: {error}", self.printed)
        except TooLarge:
            error_text = f"the last expression is too large; a program may return {limit:,} bytes"
            return build_program_failure(error_text, self.printed)
        return build_program_value(msgspec.json.decode(encoded), self.printed, [c.tool for c in self._unrecorded])


def _build_reference(name: str) -> Callable[[], None]:
    """Return what the sandbox takes for a function that it can hand around, and whose calls come here by its name."""

    def reference() -> None: ...

    reference.__name__ = name
    return reference


def _to_exception(result: ProgramResult) -> Exception:
    problem = result.problem
    assert problem is not None
    kind = _EXCEPTIONS.get(result.outcome, RuntimeError)
    return kind(f"{problem.error_type}: {problem.error}")


def _encode(arguments: dict[str, object]) -> bytes:
    return msgspec.json.encode(arguments, order="deterministic")
