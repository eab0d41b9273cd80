"""A model behind an HTTP API. What differs between the APIs is a `Wire`; there is one package for each."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Unpack

from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import Options
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.models.http.reader import ReplyReader, WireReply
from toolyard.models.http.request import BEARER, NO_HEADERS, ConnectionOptions, ModelEvent, WireClient
from toolyard.models.shared.encode_cache import STEP_ITEMS, EncodeCache
from toolyard.models.shared.hosted_tools import find_native_tools
from toolyard.models.shared.option_support import NO_OPTIONS

BETA_HEADER = "anthropic-beta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """An API: its address, and functions that encode a request and read its reply."""

    name: str
    provider: str
    """The provider of a model that names none."""
    build_url: Callable[[str, str], str]
    """Takes the base URL and the model. Raises Misconfigured if the API cannot be addressed with them."""
    encode: Callable[[ModelRequest, str, str, frozenset[str]], bytes]
    """Takes the request, the model, the provider and the forwarded options. Raises WireFailure."""
    open_cache: Callable[[ModelRequest, str, str], EncodeCache]
    """Takes the request, the model and the provider. `encode` uses the items that are in the cache already."""
    build_reply: Callable[[ModelRequest, str, str], WireReply]
    """Takes the request, the model and the provider."""
    list_ignored: Callable[[Options, str, str, frozenset[str]], list[str]]
    """Takes the options, the model, the provider and the forwarded options."""
    list_betas: Callable[[ModelRequest, str], list[str]] | None = None
    """Takes the request and the provider. Returns the betas of the API that the request names; None if it has none."""
    key_header: str = BEARER
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def read(self, packets: Iterable[bytes], request: ModelRequest, provider: str = "") -> list[ModelEvent]:
        """Return the events of a reply whose body is these packets."""
        reader = ReplyReader(self.build_reply(request, request.model, provider or self.provider))
        events: list[ModelEvent] = []
        for packet in packets:
            events.extend(reader.feed(packet))
            if reader.done:
                break
        return [*events, *reader.end()]


class HttpModel:
    """One model of one provider: each request is one streamed HTTP request."""

    wire: ClassVar[Wire]

    def __init__(
        self,
        *,
        base_url: str,
        model: str = "",
        api_key: str = "",
        provider: str = "",
        forward: frozenset[str] = NO_OPTIONS,
        betas: frozenset[str] = NO_OPTIONS,
        **connection_options: Unpack[ConnectionOptions],
    ) -> None:
        """`model` is the name on the wire; if it is empty, each request names its model.

        `forward` names options that are sent although they change the price or may name a person, `betas` those of the
        API that requests may use.
        """
        wire = self.wire
        self._model = model
        self._provider = provider or wire.provider
        self._forward = forward
        self._betas = betas
        connection_options["headers"] = {**wire.headers, **connection_options.get("headers", NO_HEADERS)}
        self._client = WireClient(
            url=wire.build_url(base_url, model),
            provider=self._provider,
            key=api_key,
            key_header=wire.key_header,
            **connection_options,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield deltas, then one TurnEnded or TurnFailed. Closing the generator closes the connection."""
        reader = ReplyReader(self.wire.build_reply(request, self._model or request.model, self._provider))
        return self._client.stream(self._encode, reader, request, self._build_headers(request))

    def _build_headers(self, request: ModelRequest) -> Mapping[str, str]:
        """Return the headers of this request: the betas that it names, if they may be used."""
        if not self._betas or self.wire.list_betas is None:
            return NO_HEADERS
        names = [name for name in self.wire.list_betas(request, self._provider) if name in self._betas]
        return {BETA_HEADER: ",".join(names)} if names else NO_HEADERS

    async def _encode(self, request: ModelRequest) -> bytes:
        """Return the body. A long history that is encoded for the first time does not keep other tasks waiting."""
        if len(request.history) > STEP_ITEMS:
            await self.wire.open_cache(request, self._model, self._provider).extend_in_steps(request.history)
        return self.wire.encode(request, self._model, self._provider, self._forward)

    @property
    def native(self) -> NativeTools:
        return find_native_tools(self.wire.name, self._model)

    def find_provider(self, wire: str) -> str:
        return self._provider if self.wire.name == wire else ""

    def list_ignored(self, options: Options) -> list[str]:
        """Return the names of the options that are set and not sent."""
        return self.wire.list_ignored(options, self._model, self._provider, self._forward)

    async def close(self) -> None:
        await self._client.close()
