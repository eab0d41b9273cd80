"""The Responses wire: OpenAI's newer API, which keeps reasoning between turns and runs tools of its own.

It turns a ModelRequest into one streamed HTTP request and the answer into events. It does not know the loop, the
tools' meaning, nor where keys and addresses are configured. Nothing is stored at the provider.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Unpack

from toolyard.core.options import PLAIN, Options
from toolyard.core.ports import ModelRequest
from toolyard.core.web_search import Native
from toolyard.models.hosted_tools import native
from toolyard.models.http.exchange import Exchange, Line, ModelEvent, address, events_in
from toolyard.models.http.reader import ReplyReader
from toolyard.models.responses.reply import ResponsesReply
from toolyard.models.responses.request import to_wire, tools_of

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
        options: Options = PLAIN,
        **line: Unpack[Line],
    ) -> None:
        """`model` is the name to ask for; empty means the one that each request names."""
        self._model = model
        self._provider = provider
        self._options = options
        url = address(base_url, "/responses")
        self._exchange = Exchange(url=url, provider=provider, key=api_key, **line)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        body = to_wire(request, self._model, self._provider, self._options)
        return self._exchange.stream(body, _reader(request, self._model, self._provider), request)

    @property
    def native(self) -> Native:
        return native("responses", self._model)

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "openai") -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    return events_in(packets, _reader(request, "", provider))


def _reader(request: ModelRequest, model: str, provider: str) -> ReplyReader:
    reply = ResponsesReply(request.turn, provider, model or request.model, tools_of(request.offer))
    return ReplyReader(reply, request.mint)
