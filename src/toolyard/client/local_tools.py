"""The application's tools: their definitions, and one run for each call, however often the server hands it out."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import msgspec
from msgspec.structs import replace

from toolyard.client.events import PendingToolCall, PendingToolCalls
from toolyard.client.http import RequestRejected
from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Refused
from toolyard.core.items import Call, Problem
from toolyard.core.ports import Context, Failure, Pending, Value, Venue
from toolyard.core.tools.definition import Tool
from toolyard.engine.tools.value_encoding import encode_text

MAX_ERROR_CHARS = 4000
MAX_ERROR_TYPE_CHARS = 100
MAX_RESULTS = 1000
MAX_BYTES = 8 * 1000 * 1000
"""The results of one request; a server accepts 8 MiB."""
MAX_WAIT_S = 86_400.0
TOO_LARGE_ADVICE = "ask for less, or have the tool return a link"
STOPPED = Problem(error="it was stopped, but may have taken effect", error_type="cancelled")
ResultObject = dict[str, object]
ResultFields = dict[Literal["result", "error"], object]


def _build_effects(tool: Tool) -> dict[str, bool]:
    """Return the effects of a tool under the names that they have in a request."""
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
        self._runs: dict[str, asyncio.Future[ResultObject]] = {}
        self._running: asyncio.Future[list[ResultObject]] | None = None
        self._max_results = MAX_RESULTS
        self._posted_results: list[ResultObject] = []
        self._replaced_calls = set[str]()

    def add(self, venues: Sequence[Venue]) -> None:
        self._venues = (*self._venues, *venues)

    def list_names(self) -> list[str]:
        return [tool.name for venue in self._venues for tool in venue.tools()]

    def build_definitions(self) -> list[dict[str, object]]:
        """Return the definitions of all tools as a request to the server has them."""
        tools = [tool for venue in self._venues for tool in venue.tools()]
        return [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "examples": tool.examples,
                "propose": tool.propose,
                "sources": tool.sources,
                **{name: True for name, is_set in _build_effects(tool).items() if is_set},
                **({"timeoutSeconds": min(tool.timeout_s, MAX_WAIT_S)} if tool.timeout_s > tool.client_s else {}),
            }
            for tool in tools
        ]

    async def run_calls(self, batch: PendingToolCalls) -> list[ResultObject] | None:
        """Run the calls of our tools side by side, and return as many results as fit into one request.

        Return None if they were stopped meanwhile. The server hands out the remaining calls again.
        """
        matches = [(call, venue, tool) for call in batch.tool_calls for venue, tool in self._find(call.name)]
        self._running = asyncio.gather(*(self._run_once(call, venue, tool, batch) for call, venue, tool in matches))
        try:
            self._posted_results = _take_fitting(await self._running)[: self._max_results]
            return self._posted_results
        except asyncio.CancelledError:
            # `stop` cancels only the gathered calls. If the current task is cancelled, the cancellation has to go on.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None
        finally:
            self._running = None

    def shrink_batch(self, error: Refused | RequestRejected | Invalid) -> bool:
        """Prepare another attempt after the server rejected the results: fewer at once, or one replaced by an error.

        Return False if the rejected result was such an error already.
        """
        # Refused: the server no longer waits for some of the results, because somebody else delivered them, or we did
        # before the connection broke. It hands out the calls that it still waits for.
        if isinstance(error, Refused):
            return True
        if len(self._posted_results) > 1:
            self._max_results = len(self._posted_results) // 2
            return True
        call_id = str(self._posted_results[0]["toolCallId"])
        if call_id in self._replaced_calls:
            return False
        self._replaced_calls.add(call_id)
        error_type = error.error_type if isinstance(error, RequestRejected) else "validation_error"
        problem = Problem(error=f"the tool ran, but its result was not taken: {error}", error_type=error_type)
        self._runs[call_id] = asyncio.get_running_loop().create_future()
        self._runs[call_id].set_result({"toolCallId": call_id, "error": _truncate(problem)})
        return True

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def end_request(self) -> None:
        """Forget the results of a request that has ended: its calls are not handed out again."""
        self._max_results = MAX_RESULTS
        self._replaced_calls.clear()
        self._runs = {call_id: run for call_id, run in self._runs.items() if not run.done()}

    async def close(self) -> None:
        self.stop()
        for venue in self._venues:
            await venue.close()

    def _find(self, name: str) -> list[tuple[Venue, Tool]]:
        return [(venue, tool) for venue in self._venues for tool in venue.tools() if tool.name == name]

    async def _run_once(self, call: PendingToolCall, venue: Venue, tool: Tool, batch: PendingToolCalls) -> ResultObject:
        earlier_run = self._runs.get(call.id)
        if earlier_run is not None:
            return await asyncio.shield(earlier_run)  # shielded: its first caller still needs the future
        run = self._runs[call.id] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._run_call(call, venue, tool, batch)
        except BaseException:
            # The call may have taken effect, so it must not run again if `follow` gets it handed out later.
            run.set_result({"toolCallId": call.id, "error": STOPPED})
            raise
        result: ResultObject = {"toolCallId": call.id, **_limit_size(_encode_answer(answer))}
        run.set_result(result)
        return result

    async def _run_call(
        self, call: PendingToolCall, venue: Venue, tool: Tool, batch: PendingToolCalls
    ) -> Value | Failure | Pending:
        check = venue.hooks(tool.name).validate
        if check and (problem := check(call.arguments)):
            return Failure(problem=problem)
        context = Context(
            caller=replace(self._caller, division=batch.division),
            conversation=batch.conversation_id,
            run_id=batch.run_id,
            call_id=call.id,
            correlation_id=batch.correlation_id,
            idempotency_key=call.id,
            attempt=1,
            deadline=time.time() + tool.timeout_s,
            progress=_ignore_progress,
            fields=self._fields(),
        )
        try:
            async with asyncio.timeout(tool.timeout_s):
                tool_call = Call(id=call.id, at=time.time(), tool=tool.name, arguments=call.arguments)
                return await venue.run(tool_call, tool, context)
        except TimeoutError:
            error_text = f"no answer within {tool.timeout_s:g} s; it was stopped, but may have taken effect"
            return Failure(problem=Problem(error=error_text, error_type="timeout"))


def _ignore_progress(*report: object, **more: object) -> None:
    """Do nothing: an application shows the progress of its tools itself."""


def _encode_answer(answer: Value | Failure | Pending) -> ResultFields:
    match answer:
        case Pending():
            return {"error": "the tool asks a question, and nobody in this application answers it"}
        case Failure(problem=problem):
            return {"error": _truncate(problem)}
        case Value(value=value):
            text = encode_text(value)
            if isinstance(text, Problem):
                return {"error": text}
            return {"result": text if isinstance(value, str) else msgspec.Raw(text.encode())}


def _limit_size(fields: ResultFields) -> ResultFields:
    size = len(msgspec.json.encode(fields))
    if size <= MAX_BYTES:
        return fields
    error_text = f"the tool ran, but its result of {size:,} bytes is more than a server takes; {TOO_LARGE_ADVICE}"
    return {"error": Problem(error=error_text, error_type="too_large")}


def _take_fitting(results: Sequence[ResultObject]) -> list[ResultObject]:
    """Return the first results, as many as fit into one request; at least one."""
    sizes = accumulate(len(msgspec.json.encode(result)) for result in results)
    return [
        result
        for number, (result, size) in enumerate(zip(results, sizes, strict=True))
        if not number or size <= MAX_BYTES
    ]


def _truncate(problem: Problem) -> Problem:
    """Return a problem within the server's limits: long texts are cut, a missing type becomes `execution_error`."""
    error_type = problem.error_type[:MAX_ERROR_TYPE_CHARS] or "execution_error"
    return replace(problem, error=problem.error[:MAX_ERROR_CHARS], error_type=error_type)
