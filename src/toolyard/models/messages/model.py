"""The Messages wire: Anthropic, and every provider with the same API.

It turns a ModelRequest into one streamed HTTP request and the answer into events.
"""

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Unpack

from toolyard.core.ports import ModelRequest
from toolyard.core.settings.options import Options
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.models.http.reader import ReplyReader
from toolyard.models.http.request import (
    NO_HEADERS,
    ConnectionOptions,
    ModelEvent,
    WireClient,
    build_url,
    read_events,
)
from toolyard.models.messages.history import find_open_calls
from toolyard.models.messages.request import UNSENT_OPTIONS, select_sent_extras, to_wire
from toolyard.models.messages.stream import MessagesReply
from toolyard.models.shared.hosted_tools import find_native_tools
from toolyard.models.shared.option_support import NO_OPTIONS, list_ignored

__all__ = ["Anthropic", "from_wire", "to_wire"]

VERSION = "2023-06-01"


class Anthropic:
    """A model behind `{base_url}/v1/messages`."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str = "",
        api_key: str = "",
        provider: str = "anthropic",
        forward: frozenset[str] = NO_OPTIONS,
        **connection_options: Unpack[ConnectionOptions],
    ) -> None:
        """`model` is the name on the wire; if it is empty, each request names its model."""
        self._model = model
        self._provider = provider
        self._forward = forward
        connection_options["headers"] = {"anthropic-version": VERSION, **connection_options.get("headers", NO_HEADERS)}
        url = _build_url(base_url)
        self._exchange = WireClient(
            url=url, provider=provider, key=api_key, key_header="x-api-key", **connection_options
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator closes the connection."""
        encode = partial(to_wire, request, self._model, self._provider, self._forward)
        return self._exchange.stream(encode, _build_reader(request, self._provider), request)

    @property
    def native(self) -> NativeTools:
        return find_native_tools("messages", self._model)

    def list_ignored(self, options: Options) -> list[str]:
        """Return the names of the options that are set and not sent."""
        return list_ignored(options, select_sent_extras(options, self._forward), UNSENT_OPTIONS)

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "anthropic") -> list[ModelEvent]:
    """Return the events of a reply whose body is these packets."""
    return read_events(packets, _build_reader(request, provider))


def _build_reader(request: ModelRequest, provider: str) -> ReplyReader:
    reply = MessagesReply(request.clock, request.turn, provider, find_open_calls(request.history, provider))
    return ReplyReader(reply)


def _build_url(base_url: str) -> str:
    """Return the URL of the API. The base URL may end in `/v1`, as that of other providers does."""
    path, mark, query = base_url.strip().partition("?")
    return build_url(path.rstrip("/").removesuffix("/v1") + mark + query, "/v1/messages")
