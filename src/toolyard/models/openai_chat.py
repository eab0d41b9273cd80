"""The Chat Completions wire: OpenAI and everybody who speaks its dialect (DashScope, Ollama, vLLM, DeepSeek, …).

It turns a ModelRequest into one streamed HTTP request and the answer into events. It does not know the loop, the
tools' meaning, nor where keys and addresses are configured.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Unpack

from toolyard.core.ports import ModelRequest
from toolyard.models._chat_chunks import Chunk, decode_chunk
from toolyard.models._chat_reply import Reply
from toolyard.models._chat_request import to_wire
from toolyard.models._http import Deadlines, Retry
from toolyard.models._providers import PROVIDERS, Provider
from toolyard.models._reply_reader import ReplyReader
from toolyard.models._wire import ModelEvent, Options, Wire, address, bearer, read

__all__ = ["PROVIDERS", "Deadlines", "OpenAIChat", "Provider", "Retry", "from_wire", "to_wire"]


class OpenAIChat:
    """A model behind `{base_url}/chat/completions`."""

    def __init__(
        self,
        *,
        base_url: str,
        model: str = "",
        api_key: str = "",
        provider: str = "openai",
        **options: Unpack[Options],
    ) -> None:
        """`model` is the name to ask for; empty means the one that each request names."""
        self._model = model
        self._provider = provider
        self._wire = Wire(address(base_url, "chat/completions"), bearer(api_key), provider, **options)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Deltas, then one TurnEnded or TurnFailed. Closing it hangs up."""
        return self._wire.stream(to_wire(request, self._model), _reader(request, self._provider), request)

    async def close(self) -> None:
        await self._wire.close()


def from_wire(packets: Iterable[bytes], request: ModelRequest, provider: str = "openai") -> list[ModelEvent]:
    """The events of a reply whose body is these packets."""
    return read(packets, _reader(request, provider))


def _reader(request: ModelRequest, provider: str) -> ReplyReader[Chunk]:
    return ReplyReader(Reply(request.turn, provider), decode_chunk, request.mint)
