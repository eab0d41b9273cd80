"""The Messages wire: Anthropic, and whoever else speaks it.

It turns a ModelRequest into one streamed HTTP request and the answer into events. It does not know the loop, the
tools' meaning, nor where keys and addresses are configured.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Unpack

from toolyard.core.options import PLAIN, Options
from toolyard.core.ports import ModelRequest
from toolyard.core.web_search import Native
from toolyard.models.hosted_tools import native
from toolyard.models.http.exchange import NO_HEADERS, Exchange, Line, ModelEvent, address, events_in
from toolyard.models.http.reader import ReplyReader
from toolyard.models.messages.history import open_calls
from toolyard.models.messages.reply import MessagesReply
from toolyard.models.messages.request import to_wire

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
        options: Options = PLAIN,
        **line: Unpack[Line],
    ) -> None:
        """`model` is the name to ask for; empty means the one that each request names."""
        self._model = model
        self._provider = provider
        self._options = options
        line["headers"] = {"anthropic-version": VERSION, **line.get("headers", NO_HEADERS)}
        url = _address(base_url)
        self._exchange = Exchange(url=url, provider=provider, key=api_key, key_header="x-api-key", **line)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        body = to_wire(request, self._model, self._provider, self._options)
        return self._exchange.stream(body, _reader(request, self._provider), request)

    @property
    def native(self) -> Native:
        return native("messages", self._model)

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "anthropic") -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    return events_in(packets, _reader(request, provider))


def _reader(request: ModelRequest, provider: str) -> ReplyReader:
    reply = MessagesReply(request.turn, provider, open_calls(request.history, provider))
    return ReplyReader(reply, request.mint)


def _address(base_url: str) -> str:
    """The base URL may end in the version, as that of other providers does."""
    path, mark, query = base_url.strip().partition("?")
    return address(path.rstrip("/").removesuffix("/v1") + mark + query, "/v1/messages")
