"""The application's tools: what they are, and one run for each call, however often the call is told."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import msgspec
from msgspec.structs import replace

from toolyard.client.events import HandedCall, ToolCalls
from toolyard.client.http import Unfit
from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Refused
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, Failure, Later, Value, Venue
from toolyard.core.tools import Tool
from toolyard.engine.value_encoding import encode_text

MOST_WORDS = 4000
MOST_TYPE = 100
MOST_AT_ONCE = 1000
MOST_BYTES = 8 * 1000 * 1000
"""Of results in one request; a server takes 8 MiB."""
MOST_WAIT_S = 86_400.0
LESS = "ask for less, or have the tool return a link"
STOPPED = Problem(error="it was stopped, but may have taken effect", error_type="cancelled")
ToolResult = dict[str, object]
Told = dict[Literal["result", "error"], object]


def _effects(tool: Tool) -> dict[str, bool]:
    """Return what a tool does to the world, under the names that a request has for it."""
    return {
        "readOnly": tool.read_only,
        "destructive": tool.destructive,
        "openWorld": tool.open_world,
        "idempotent": tool.idempotent,
    }


class LocalTools:
    def __init__(
        self, venues: Sequence[Venue], caller: Caller, fields: Callable[[], Mapping[str, object]] = dict
    ) -> None:
        self._venues = venues
        self._caller = caller
        self._fields = fields
        self._runs: dict[str, asyncio.Future[ToolResult]] = {}
        self._running: asyncio.Future[list[ToolResult]] | None = None
        self._most_at_once = MOST_AT_ONCE
        self._posted: list[ToolResult] = []
        self._given_up = set[str]()

    def add(self, venues: Sequence[Venue]) -> None:
        self._venues = (*self._venues, *venues)

    def names(self) -> list[str]:
        return [tool.name for venue in self._venues for tool in venue.tools()]

    def definitions(self) -> list[dict[str, object]]:
        """As the server takes them."""
        found = [tool for venue in self._venues for tool in venue.tools()]
        return [
            {
                "name": one.name,
                "description": one.description,
                "parameters": one.parameters,
                "examples": one.examples,
                "sources": one.sources,
                **{name: True for name, is_set in _effects(one).items() if is_set},
                **({"timeoutSeconds": min(one.timeout_s, MOST_WAIT_S)} if one.timeout_s > one.client_s else {}),
            }
            for one in found
        ]

    async def results(self, handed: ToolCalls) -> list[ToolResult] | None:
        """The results of those that are ours, run side by side, as many as are taken at once.

        None if they were stopped meanwhile. The calls of those that are left are handed out again.
        """
        known = [(call, venue, tool) for call in handed.tool_calls for venue, tool in self._find(call.name)]
        self._running = asyncio.gather(*(self._once(*one, handed) for one in known))
        try:
            self._posted = _fitting(await self._running)[: self._most_at_once]
            return self._posted
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None
        finally:
            self._running = None

    def give_way(self, error: Refused | Unfit | Invalid) -> bool:
        """The results just posted were not taken: fewer at once, or one as an error. False if that was one already.

        Refused means that some of them are not waited for any more: somebody else was first, or they were delivered
        before the connection broke.
        """
        if isinstance(error, Refused):
            return True
        if len(self._posted) > 1:
            self._most_at_once = len(self._posted) // 2
            return True
        call_id = str(self._posted[0]["toolCallId"])
        if call_id in self._given_up:
            return False
        self._given_up.add(call_id)
        error_type = error.error_type if isinstance(error, Unfit) else "validation_error"
        problem = Problem(error=f"the tool ran, but its result was not taken: {error}", error_type=error_type)
        self._runs[call_id] = asyncio.get_running_loop().create_future()
        self._runs[call_id].set_result({"toolCallId": call_id, "error": _cut(problem)})
        return True

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def over(self) -> None:
        """The request has ended: nobody asks for its results again."""
        self._most_at_once = MOST_AT_ONCE
        self._given_up.clear()
        self._runs = {call_id: run for call_id, run in self._runs.items() if not run.done()}

    async def close(self) -> None:
        self.stop()
        for venue in self._venues:
            await venue.close()

    def _find(self, name: str) -> list[tuple[Venue, Tool]]:
        return [(venue, tool) for venue in self._venues for tool in venue.tools() if tool.name == name]

    async def _once(self, call: HandedCall, venue: Venue, tool: Tool, handed: ToolCalls) -> ToolResult:
        known = self._runs.get(call.id)
        if known is not None:
            return await asyncio.shield(known)
        run = self._runs[call.id] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._answer(call, venue, tool, handed)
        except BaseException:
            run.set_result({"toolCallId": call.id, "error": STOPPED})  # for whoever follows the conversation later
            raise
        result: ToolResult = {"toolCallId": call.id, **_bounded(_told(answer))}
        run.set_result(result)
        return result

    async def _answer(self, call: HandedCall, venue: Venue, tool: Tool, handed: ToolCalls) -> Value | Failure | Later:
        check = venue.own(tool.name).check
        if check and (problem := check(call.arguments)):
            return Failure(problem=problem)
        context = Context(
            caller=replace(self._caller, division=handed.division),
            conversation=handed.conversation_id,
            run_id=handed.run_id,
            call_id=call.id,
            correlation_id=handed.correlation_id,
            idempotency_key=call.id,
            attempt=1,
            deadline=time.time() + tool.timeout_s,
            progress=_unseen,
            fields=self._fields(),
        )
        try:
            async with asyncio.timeout(tool.timeout_s):
                made = Call(id=call.id, at=time.time(), tool=tool.name, arguments=call.arguments)
                return await venue.run(made, tool, context)
        except TimeoutError:
            said = f"no answer within {tool.timeout_s:g} s; it was stopped, but may have taken effect"
            return Failure(problem=Problem(error=said, error_type="timeout"))


def _unseen(*report: object, **more: object) -> None:
    """Progress is the application's own to show."""


def _told(answer: Value | Failure | Later) -> Told:
    match answer:
        case Later():
            return {"error": "the tool asks a question, and nobody in this application answers it"}
        case Failure(problem=problem):
            return {"error": _cut(problem)}
        case Value(value=value):
            text = encode_text(value)
            if isinstance(text, Problem):
                return {"error": text}
            return {"result": text if isinstance(value, str) else msgspec.Raw(text.encode())}


def _bounded(told: Told) -> Told:
    size = len(msgspec.json.encode(told))
    if size <= MOST_BYTES:
        return told
    said = f"the tool ran, but its result of {size:,} bytes is more than a server takes; {LESS}"
    return {"error": Problem(error=said, error_type="too_large")}


def _fitting(results: Sequence[ToolResult]) -> list[ToolResult]:
    """The first of them, as many as one request holds."""
    sizes = accumulate(len(msgspec.json.encode(result)) for result in results)
    return [
        result
        for number, (result, size) in enumerate(zip(results, sizes, strict=True))
        if not number or size <= MOST_BYTES
    ]


def _cut(problem: Problem) -> Problem:
    """As the server takes it: what is too long is cut, a type that is missing is the usual one."""
    error_type = problem.error_type[:MOST_TYPE] or "execution_error"
    return replace(problem, error=problem.error[:MOST_WORDS], error_type=error_type)
