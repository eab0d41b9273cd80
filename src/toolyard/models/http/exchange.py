"""One request and its streamed answer: what every wire has in common. It does not know what either of them says."""

import asyncio
import random as randomness
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypedDict

from toolyard.core.errors import Misconfigured
from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.ports import Exchanged, ModelRequest
from toolyard.models.http.client import Answer, Deadlines, Http, Retry
from toolyard.models.http.problems import WireFailure, told
from toolyard.models.http.reader import ReplyReader

ModelEvent = ModelDelta | TurnEnded | TurnFailed
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
BEARER = "Authorization"
DEADLINES = Deadlines()
RETRY = Retry()
_SENT = {
    "User-Agent": "toolyard",
    "Content-Type": "application/json",
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
}
HIDDEN = "***"
_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


class Line(TypedDict, total=False):
    """How a provider is talked to, where that is not as usual: what every wire takes besides its own."""

    headers: Mapping[str, str]
    deadlines: Deadlines
    retry: Retry
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


class Exchange:
    """Talks to one address of one provider."""

    def __init__(
        self,
        *,
        url: str,
        provider: str,
        key: str,
        key_header: str = BEARER,
        headers: Mapping[str, str] = NO_HEADERS,
        deadlines: Deadlines = DEADLINES,
        retry: Retry = RETRY,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        """`key_header` is what the key goes into; `headers` that were asked for go before it."""
        key = key.strip()
        carried = {key_header: f"Bearer {key}" if key_header == BEARER else key} if key else NO_HEADERS
        headers = {**carried, **headers}
        self._provider = provider
        self._url = url
        self._shown = {name: HIDDEN if _SECRET.search(name) else value for name, value in headers.items()}
        self._secrets = (key, *_secrets(headers))
        sent = _sendable({**_SENT, **headers})
        self._http = Http(url=url, headers=sent, deadlines=deadlines, retry=retry, sleep=sleep, random=random)

    async def stream(self, body: bytes, reader: ReplyReader, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        answer: Answer | None = None
        problem: Problem | None = None
        kept = bytearray() if request.keep else None
        try:
            known_by = _correlation(request.correlation_id)
            answer = await self._http.post(body, known_by, request.mint.now, hasty=request.hasty)
            packet = answer.first
            while packet:
                if kept is not None:
                    kept += packet
                for event in reader.feed(packet):
                    yield event
                packet = b"" if reader.done else await answer.read()
            if not reader.failed:
                await answer.drain()
        except WireFailure as failure:
            problem = failure.problem
        finally:
            if answer is not None:
                answer.close()
            if request.keep is not None and kept is not None:
                request.keep(Exchanged(url=self._url, headers=self._shown, request=body, response=bytes(kept)))
        for event in reader.end(problem):
            yield self._told(event, answer)

    async def close(self) -> None:
        await self._http.close()

    def _told(self, event: ModelEvent, answer: Answer | None) -> ModelEvent:
        if not isinstance(event, TurnFailed):
            return event
        known: dict[str, object] = {"provider": self._provider}
        if answer is not None and answer.request_id:
            known["request_id"] = answer.request_id
        problem = event.problem
        problem = Problem(error=problem.error, error_type=problem.error_type, details={**known, **problem.details})
        return TurnFailed(problem=told(problem, self._secrets))


def events_in(packets: Iterable[bytes], reader: ReplyReader) -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    events: list[ModelEvent] = []
    for packet in packets:
        events.extend(reader.feed(packet))
        if reader.done:
            break
    return [*events, *reader.end()]


def address(base_url: str, path: str) -> str:
    """The path at the base URL, before its query if it has one."""
    base, mark, query = base_url.strip().partition("?")
    if not base.startswith(("http://", "https://")):
        raise Misconfigured(f"the model's base URL must begin with http:// or https://, not {base[:40]!r}")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def _sendable(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (name + value).isprintable():
            raise Misconfigured(f"the header {name!r} of the model (or its API key) has characters that cannot be sent")
    return headers


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """What must not be repeated: the values, whole and by word (`Bearer …`), of headers that sound secret."""
    values = [value for name, value in headers.items() if _SECRET.search(name)]
    return [*values, *(word for value in values for word in value.split()[1:])]


def _correlation(correlation_id: str) -> Mapping[str, str]:
    sendable = correlation_id.isascii() and correlation_id.isprintable()
    return {"X-Correlation-ID": correlation_id} if correlation_id and sendable else NO_HEADERS
