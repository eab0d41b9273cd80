"""The Chat Completions wire: OpenAI and providers with a compatible API (DashScope, Ollama, vLLM, DeepSeek, …)."""

from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import Options
from toolyard.models.chat.request import open_cache, select_sent_extras, to_wire
from toolyard.models.chat.stream import ChatReply
from toolyard.models.http.request import build_url
from toolyard.models.http.retries import Deadlines, Retry
from toolyard.models.http_model import HttpModel, Wire
from toolyard.models.shared.option_support import list_ignored

__all__ = ["Deadlines", "OpenAIChat", "Retry", "from_wire", "to_wire"]


def _build_reply(request: ModelRequest, model: str, provider: str) -> ChatReply:
    return ChatReply(request.clock, request.turn, provider, model)


def _list_ignored(options: Options, model: str, provider: str, forward: frozenset[str]) -> list[str]:
    return list_ignored(options, select_sent_extras(options, model, provider, forward))


class OpenAIChat(HttpModel):
    """A model behind `{base_url}/chat/completions`."""

    wire = Wire(
        name="chat",
        provider="openai",
        build_url=lambda base_url, model: build_url(base_url, "/chat/completions"),
        encode=to_wire,
        open_cache=open_cache,
        build_reply=_build_reply,
        list_ignored=_list_ignored,
    )


from_wire = OpenAIChat.wire.read
