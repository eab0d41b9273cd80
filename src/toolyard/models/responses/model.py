"""The Responses wire: OpenAI's newer API, with reasoning that goes back between turns and tools of its own.

It turns a ModelRequest into one streamed HTTP request and the answer into events. Nothing is stored at the provider.
"""

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Unpack

from toolyard.core.ports import ModelRequest
from toolyard.core.settings.options import Options
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.models.http.reader import ReplyReader
from toolyard.models.http.request import ConnectionOptions, ModelEvent, WireClient, build_url, read_events
from toolyard.models.responses.request import encode_tools, select_sent_extras, to_wire
from toolyard.models.responses.stream import ResponsesReply
from toolyard.models.shared.hosted_tools import find_native_tools
from toolyard.models.shared.option_support import NO_OPTIONS, list_ignored, supports_reasoning

__all__ = ["OpenAIResponses", "from_wire", "to_wire"]


class OpenAIResponses:
    """A model behind `{base_url}/responses`."""

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
        url = build_url(base_url, "/responses")
        self._exchange = WireClient(url=url, provider=provider, key=api_key, **connection_options)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator closes the connection."""
        encode = partial(to_wire, request, self._model, self._provider, self._forward)
        return self._exchange.stream(encode, _build_reader(request, self._model, self._provider), request)

    @property
    def native(self) -> NativeTools:
        return find_native_tools("responses", self._model)

    def list_ignored(self, options: Options) -> list[str]:
        """Return the names of the options that are set and not sent."""
        unsent = () if supports_reasoning(self._model) else ("thinking",)
        return list_ignored(options, select_sent_extras(options, self._model, self._forward), unsent)

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "openai") -> list[ModelEvent]:
    """Return the events of a reply whose body is these packets."""
    return read_events(packets, _build_reader(request, "", provider))


def _build_reader(request: ModelRequest, model: str, provider: str) -> ReplyReader:
    reply = ResponsesReply(request.clock, request.turn, provider, model or request.model, encode_tools(request.offer))
    return ReplyReader(reply)
