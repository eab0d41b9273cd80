"""What every wire to a provider does alike: post one body, read the answer to its end, tell what went wrong.

It does not know what is sent nor what the answer means, nor where keys and addresses are configured.
"""

import asyncio
import random as randomness
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol, TypedDict, Unpack

from toolyard.core.errors import Misconfigured
from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.ports import ModelRequest
from toolyard.models._http import Answer, Deadlines, Http, Retry
from toolyard.models._problems import WireFailure, told

ModelEvent = ModelDelta | TurnEnded | TurnFailed
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


class Options(TypedDict, total=False):
    """What every wire can be told."""

    headers: Mapping[str, str]
    deadlines: Deadlines
    retry: Retry
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]


class Reader(Protocol):
    """Makes events of a reply's bytes."""

    done: bool

    @property
    def failed(self) -> bool: ...

    def feed(self, packet: bytes) -> list[ModelDelta]: ...

    def end(self, problem: Problem | None = None) -> list[ModelEvent]: ...


class Wire:
    """One address of one provider."""

    def __init__(self, url: str, key: Mapping[str, str], provider: str, **options: Unpack[Options]) -> None:
        """`key` is the header that carries the key, if there is one."""
        given = options.get("headers", _NO_HEADERS)
        self._provider = provider
        self._secrets = (*_secrets(key), *_secrets(given))
        self._http = Http(
            url=url,
            headers=_headers(key, given),
            deadlines=options.get("deadlines", Deadlines()),
            retry=options.get("retry", Retry()),
            sleep=options.get("sleep", asyncio.sleep),
            random=options.get("random", randomness.random),
        )

    async def stream(self, body: bytes, reader: Reader, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        answer: Answer | None = None
        problem: Problem | None = None
        try:
            answer = await self._http.post(body, _correlation(request.correlation_id), request.mint.now)
            packet = answer.first
            while packet:
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


def read(packets: Iterable[bytes], reader: Reader) -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    events: list[ModelEvent] = []
    for packet in packets:
        events.extend(reader.feed(packet))
        if reader.done:
            break
    return [*events, *reader.end()]


def address(base_url: str, path: str, query: str = "") -> str:
    """The path under a base URL, whose own query stays behind it."""
    base, _, asked = base_url.strip().partition("?")
    if not base.startswith(("http://", "https://")):
        raise Misconfigured(f"the model's base URL must begin with http:// or https://, not {base[:40]!r}")
    queries = "&".join(one for one in (query, asked) if one)
    return f"{base.rstrip('/')}/{path}{'?' if queries else ''}{queries}"


def bearer(api_key: str) -> dict[str, str]:
    """How most providers want their key."""
    key = api_key.strip()
    return {"Authorization": f"Bearer {key}"} if key else {}


def _headers(key: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    headers = {
        "User-Agent": "toolyard",
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
        **key,
        **given,
    }
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
    return {"X-Correlation-ID": correlation_id} if correlation_id and sendable else _NO_HEADERS
