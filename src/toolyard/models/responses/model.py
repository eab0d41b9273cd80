"""The Responses wire: OpenAI's newer API, with reasoning that goes back between turns and tools of its own.

Nothing is stored at the provider.
"""

from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import Options
from toolyard.models.http.request import build_url
from toolyard.models.http_model import HttpModel, Wire
from toolyard.models.responses.request import encode_tools, open_cache, select_sent_extras, to_wire
from toolyard.models.responses.stream import ResponsesReply
from toolyard.models.shared.option_support import list_ignored, supports_reasoning

__all__ = ["OpenAIResponses", "from_wire", "to_wire"]


def _build_reply(request: ModelRequest, model: str, provider: str) -> ResponsesReply:
    return ResponsesReply(request.clock, request.turn, provider, model, encode_tools(request.offer))


def _list_ignored(options: Options, model: str, provider: str, forward: frozenset[str]) -> list[str]:
    unsent = () if supports_reasoning(model) else ("thinking",)
    return list_ignored(options, select_sent_extras(options, model, forward), unsent)


class OpenAIResponses(HttpModel):
    """A model behind `{base_url}/responses`."""

    wire = Wire(
        name="responses",
        provider="openai",
        build_url=lambda base_url, model: build_url(base_url, "/responses"),
        encode=to_wire,
        open_cache=open_cache,
        build_reply=_build_reply,
        list_ignored=_list_ignored,
    )


from_wire = OpenAIResponses.wire.read
