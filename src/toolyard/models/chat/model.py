"""The Chat Completions wire: OpenAI and providers with a compatible API (DashScope, Ollama, vLLM, DeepSeek, …).

It turns a ModelRequest into one streamed HTTP request and the answer into events.
"""

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Unpack

from toolyard.core.ports import ModelRequest
from toolyard.core.settings.options import Options
from toolyard.models.chat.request import select_sent_extras, to_wire
from toolyard.models.chat.stream import ChatReply
from toolyard.models.http.reader import ReplyReader
from toolyard.models.http.request import ConnectionOptions, ModelEvent, WireClient, build_url, read_events
from toolyard.models.http.retries import Deadlines, Retry
from toolyard.models.shared.option_support import NO_OPTIONS, list_ignored

__all__ = ["Deadlines", "OpenAIChat", "Retry", "from_wire", "to_wire"]


class OpenAIChat:
    """A model behind `{base_url}/chat/completions`."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str = "",
        api_key: str = "",
        provider: str = "openai",
        forward: frozenset[str] = NO_OPTIONS,
        **connection_options: Unpack[ConnectionOptions],
    ) -> None:
        """`model` is the name on the wire; if it is empty, each request names its model."""
        self._model = model
        self._provider = provider
        self._forward = forward
        url = build_url(base_url, "/chat/completions")
        self._exchange = WireClient(url=url, provider=provider, key=api_key, **connection_options)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator closes the connection."""
        reader = ReplyReader(ChatReply(request.clock, request.turn, self._provider, self._model or request.model))
        encode = partial(to_wire, request, self._model, self._provider, self._forward)
        return self._exchange.stream(encode, reader, request)

    def list_ignored(self, options: Options) -> list[str]:
        """Return the names of the options that are set and not sent."""
        return list_ignored(options, select_sent_extras(options, self._model, self._provider, self._forward))

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "openai") -> list[ModelEvent]:
    """Return the events of a reply whose body is these packets."""
    return read_events(packets, ReplyReader(ChatReply(request.clock, request.turn, provider, request.model)))
