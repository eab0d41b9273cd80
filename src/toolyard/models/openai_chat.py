"""The Chat Completions wire: OpenAI and everybody who speaks its dialect (DashScope, Ollama, vLLM, DeepSeek, …).

It turns a ModelRequest into one streamed HTTP request and the answer into events. It does not know the loop, the
tools' meaning, nor where keys and addresses are configured.
"""

import asyncio
import random as randomness
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType

from toolyard.core.errors import Misconfigured
from toolyard.core.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.core.ports import ModelRequest
from toolyard.models._chat_reply import ReplyReader
from toolyard.models._chat_request import to_wire
from toolyard.models._http import Answer, Deadlines, Http, Retry
from toolyard.models._problems import WireFailure, told
from toolyard.models._providers import PROVIDERS, Provider

__all__ = ["PROVIDERS", "Deadlines", "OpenAIChat", "Provider", "Retry", "from_wire", "to_wire"]

ModelEvent = ModelDelta | TurnEnded | TurnFailed
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_DEADLINES = Deadlines()
_RETRY = Retry()
_SECRET = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


class OpenAIChat:
    """A model behind `{base_url}/chat/completions`."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str = "",
        api_key: str = "",
        headers: Mapping[str, str] = _NO_HEADERS,
        provider: str = "openai",
        deadlines: Deadlines = _DEADLINES,
        retry: Retry = _RETRY,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        """`model` is the name to ask for; empty means the one that each request names."""
        self._model = model
        self._provider = provider
        key = api_key.strip()
        sent = _headers(key, headers)
        self._secrets = (key, *_secrets(headers))
        self._http = Http(
            url=_address(base_url), headers=sent, deadlines=deadlines, retry=retry, sleep=sleep, random=random
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        reader = ReplyReader(request.turn, request.mint, self._provider)
        body = to_wire(request, self._model)
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


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "openai") -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    reader = ReplyReader(request.turn, request.mint, provider)
    events: list[ModelEvent] = []
    for packet in packets:
        events.extend(reader.feed(packet))
        if reader.done:
            break
    return [*events, *reader.end()]


def _address(base_url: str) -> str:
    path, mark, query = base_url.strip().partition("?")
    if not path.startswith(("http://", "https://")):
        raise Misconfigured(f"the model's base URL must begin with http:// or https://, not {path[:40]!r}")
    return f"{path.rstrip('/')}/chat/completions{mark}{query}"


def _headers(key: str, given: Mapping[str, str]) -> dict[str, str]:
    headers = {
        "User-Agent": "toolyard",
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Accept-Encoding": "identity",
    }
    if key:
        headers["Authorization"] = f"Bearer {key}"
    headers.update(given)
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
