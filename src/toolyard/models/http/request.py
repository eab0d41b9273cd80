"""Sends one request and streams its answer, for every wire. The wires encode the request and read the answer."""

import asyncio
import random as randomness
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TypedDict

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Problem
from toolyard.core.masking import shorten_address
from toolyard.core.ports import ModelRequest, WireExchange
from toolyard.models.http.problems import WireFailure, mask_problem
from toolyard.models.http.reader import ReplyReader
from toolyard.models.http.retries import Deadlines, HttpClient, HttpResponse, Retry

ModelEvent = ModelDelta | TurnEnded | TurnFailed
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
BEARER = "Authorization"
DEFAULT_DEADLINES = Deadlines()
DEFAULT_RETRY = Retry()
_DEFAULT_HEADERS = {
    "User-Agent": "toolyard",
    "Content-Type": "application/json",
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
}
MASK = "***"
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


class ConnectionOptions(TypedDict, total=False):
    """Connection settings that every wire accepts besides its own."""

    headers: Mapping[str, str]
    deadlines: Deadlines
    retry: Retry
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    is_public_only: Callable[[], bool]


class WireClient:
    """A client of one address of one provider."""

    def __init__(
        self,
        *,
        url: str,
        provider: str,
        key: str,
        key_header: str = BEARER,
        headers: Mapping[str, str] = NO_HEADERS,
        deadlines: Deadlines = DEFAULT_DEADLINES,
        retry: Retry = DEFAULT_RETRY,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
        is_public_only: Callable[[], bool] = lambda: False,
    ) -> None:
        """`key_header` is the header that carries the key; one of the same name in `headers` replaces it."""
        key = key.strip()
        key_headers = {key_header: f"Bearer {key}" if key_header == BEARER else key} if key else NO_HEADERS
        headers = {**key_headers, **headers}
        self._provider = provider
        self._url = url
        self._masked_headers = {name: MASK if _SECRET_HEADER.search(name) else value for name, value in headers.items()}
        self._secrets = (key, *_collect_secrets(headers))
        fields = _validate_headers({**_DEFAULT_HEADERS, **headers})
        self._http = HttpClient(
            url=url,
            headers=fields,
            deadlines=deadlines,
            retry=retry,
            sleep=sleep,
            random=random,
            is_public_only=is_public_only,
        )

    async def stream(
        self,
        encode: Callable[[ModelRequest], Awaitable[bytes]],
        reader: ReplyReader,
        request: ModelRequest,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator closes the connection.

        `headers` are those of this request only. `encode` returns the body. If it raises WireFailure, nothing is sent
        and the turn fails with its problem.
        """
        body = b""
        answer: HttpResponse | None = None
        problem: Problem | None = None
        recorded = bytearray() if request.record_exchange else None
        try:
            body = await encode(request)
            headers = {**_build_correlation_headers(request.correlation_id), **headers}
            admit = partial(_admit_attempt, request) if request.admit_attempt else None
            answer = await self._http.send(body, headers, request.clock.now, fail_fast=request.fail_fast, admit=admit)
            packet = answer.first
            while packet:
                if recorded is not None:
                    recorded += packet
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
            # Recorded in `finally`, so that an exchange that failed or was cancelled is recorded as far as it got.
            if request.record_exchange is not None and recorded is not None and body:
                request.record_exchange(
                    WireExchange(url=self._url, headers=self._masked_headers, request=body, response=bytes(recorded))
                )
        for event in reader.end(problem):
            yield self._annotate_failure(event, answer)

    async def close(self) -> None:
        await self._http.close()

    def _annotate_failure(self, event: ModelEvent, answer: HttpResponse | None) -> ModelEvent:
        if not isinstance(event, TurnFailed):
            return event
        details: dict[str, object] = {"provider": self._provider}
        if answer is not None and answer.request_id:
            details["request_id"] = answer.request_id
        problem = event.problem
        problem = Problem(error=problem.error, error_type=problem.error_type, details={**details, **problem.details})
        return TurnFailed(problem=mask_problem(problem, self._secrets))


async def _admit_attempt(request: ModelRequest, failure: Problem) -> None:
    assert request.admit_attempt is not None
    if (refusal := await request.admit_attempt(request.model, failure)) is not None:
        raise WireFailure(refusal.problem)


def build_url(base_url: str, path: str) -> str:
    """Return the URL of a path below the base URL, whose query (if any) stays at the end."""
    base, mark, query = base_url.strip().partition("?")
    if not base.startswith(("http://", "https://")):
        shown = shorten_address(base)[:40]
        raise Misconfigured(f"the model's base URL must begin with http:// or https://, not {shown!r}")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def _validate_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (name + value).isprintable():
            raise Misconfigured(f"the header {name!r} of the model (or its API key) has characters that cannot be sent")
    return headers


def _collect_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the values of headers whose names sound secret, whole and without a scheme such as `Bearer`."""
    values = [value for name, value in headers.items() if _SECRET_HEADER.search(name)]
    return [*values, *(word for value in values for word in value.split()[1:])]


def _build_correlation_headers(correlation_id: str) -> Mapping[str, str]:
    is_sendable = correlation_id.isascii() and correlation_id.isprintable()
    return {"X-Correlation-ID": correlation_id} if correlation_id and is_sendable else NO_HEADERS
