"""The Gemini wire: streamGenerateContent of Google's models.

It turns a ModelRequest into one streamed HTTP request and the answer into events. It does not know the loop, the
tools' meaning, nor where keys and addresses are configured.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Unpack
from urllib.parse import quote

from toolyard.core.errors import Misconfigured
from toolyard.core.options import PLAIN, Options
from toolyard.core.ports import ModelRequest
from toolyard.core.web_search import Native
from toolyard.models.gemini.reply import GeminiReply
from toolyard.models.gemini.request import to_wire
from toolyard.models.hosted_tools import native
from toolyard.models.http.exchange import Exchange, Line, ModelEvent, address, events_in
from toolyard.models.http.reader import ReplyReader

__all__ = ["Gemini", "from_wire", "to_wire"]


class Gemini:
    """A model behind `{base_url}/models/{model}:streamGenerateContent`."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str = "",
        provider: str = "gemini",
        options: Options = PLAIN,
        **line: Unpack[Line],
    ) -> None:
        """`model` is part of the address: `gemini-3-flash`, or a path such as `tunedModels/mine`."""
        if not model:
            raise Misconfigured("a Gemini model needs its name: it is part of the address")
        self._model = model
        self._provider = provider
        self._options = options
        path = quote(model if "/" in model else f"models/{model}")
        url = _with_sse(address(base_url, f"/{path}:streamGenerateContent"))
        self._exchange = Exchange(url=url, provider=provider, key=api_key, key_header="x-goog-api-key", **line)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        body = to_wire(request, self._model, self._provider, self._options)
        return self._exchange.stream(body, _reader(request, self._model, self._provider), request)

    @property
    def native(self) -> Native:
        return native("gemini", self._model)

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "gemini") -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    return events_in(packets, _reader(request, "", provider))


def _reader(request: ModelRequest, model: str, provider: str) -> ReplyReader:
    names = [tool.name for tool in request.offer.tools]
    sealed_by = f"{provider}:{model or request.model}"
    return ReplyReader(GeminiReply(request.turn, provider, sealed_by, names), request.mint)


def _with_sse(url: str) -> str:
    """Without this the answer is one array, which is whole only at its end."""
    return f"{url}{'&' if '?' in url else '?'}alt=sse"
