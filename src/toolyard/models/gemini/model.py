"""The Gemini wire: streamGenerateContent of Google's models.

It turns a ModelRequest into one streamed HTTP request and the answer into events.
"""

from collections.abc import AsyncGenerator, Iterable
from functools import partial
from typing import Unpack
from urllib.parse import quote

from toolyard.core.errors import Misconfigured
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.options import Options
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.models.gemini.request import find_unsent_options, select_sent_extras, to_wire
from toolyard.models.gemini.stream import GeminiReply
from toolyard.models.http.reader import ReplyReader
from toolyard.models.http.request import ConnectionOptions, ModelEvent, WireClient, build_url, read_events
from toolyard.models.shared.hosted_tools import find_native_tools
from toolyard.models.shared.option_support import NO_OPTIONS, list_ignored

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
        forward: frozenset[str] = NO_OPTIONS,
        **connection_options: Unpack[ConnectionOptions],
    ) -> None:
        """`model` is part of the address: `gemini-3-flash`, or a path such as `tunedModels/mine`.

        `forward` has no effect: the API has no such options.
        """
        if not model:
            raise Misconfigured("a Gemini model needs its name: it is part of the address")
        self._model = model
        self._provider = provider
        path = quote(model if "/" in model else f"models/{model}")
        url = _add_sse_parameter(build_url(base_url, f"/{path}:streamGenerateContent"))
        self._exchange = WireClient(
            url=url, provider=provider, key=api_key, key_header="x-goog-api-key", **connection_options
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator closes the connection."""
        encode = partial(to_wire, request, self._model, self._provider)
        return self._exchange.stream(encode, _build_reader(request, self._model, self._provider), request)

    @property
    def native(self) -> NativeTools:
        return find_native_tools("gemini", self._model)

    def list_ignored(self, options: Options) -> list[str]:
        """Return the names of the options that are set and not sent."""
        return list_ignored(options, select_sent_extras(options, self._model), find_unsent_options(self._model))

    async def close(self) -> None:
        await self._exchange.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "gemini") -> list[ModelEvent]:
    """Return the events of a reply whose body is these packets."""
    return read_events(packets, _build_reader(request, "", provider))


def _build_reader(request: ModelRequest, model: str, provider: str) -> ReplyReader:
    names = [tool.name for tool in request.offer.tools]
    sealed_by = f"{provider}:{model or request.model}"
    return ReplyReader(GeminiReply(request.clock, request.turn, provider, sealed_by, names))


def _add_sse_parameter(url: str) -> str:
    """Return the URL with `alt=sse`: without it the answer is one JSON array instead of a stream of events."""
    return f"{url}{'&' if '?' in url else '?'}alt=sse"
