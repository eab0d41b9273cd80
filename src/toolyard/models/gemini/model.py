"""The Gemini wire: `streamGenerateContent` of Google's models."""

from urllib.parse import quote

from toolyard.core.errors import Misconfigured
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import Options
from toolyard.models.gemini.request import find_unsent_options, open_cache, select_sent_extras, to_wire
from toolyard.models.gemini.stream import GeminiReply
from toolyard.models.http.request import build_url
from toolyard.models.http_model import HttpModel, Wire
from toolyard.models.shared.option_support import list_ignored

__all__ = ["Gemini", "from_wire", "to_wire"]


def _build_url(base_url: str, model: str) -> str:
    """Return the URL of the model: `gemini-3-flash`, or a path such as `tunedModels/mine`. Raise Misconfigured."""
    if not model:
        raise Misconfigured("a Gemini model needs its name: it is part of the address")
    path = quote(model if "/" in model else f"models/{model}")
    url = build_url(base_url, f"/{path}:streamGenerateContent")
    # Without `alt=sse` the answer is one JSON array instead of a stream of events.
    return f"{url}{'&' if '?' in url else '?'}alt=sse"


def _build_reply(request: ModelRequest, model: str, provider: str) -> GeminiReply:
    names = [tool.name for tool in request.offer.tools]
    return GeminiReply(request.clock, request.turn, provider, f"{provider}:{model}", names)


def _list_ignored(options: Options, model: str, provider: str, forward: frozenset[str]) -> list[str]:
    return list_ignored(options, select_sent_extras(options, model), find_unsent_options(model))


class Gemini(HttpModel):
    """A model behind `{base_url}/models/{model}:streamGenerateContent`.

    `forward` has no effect: the API has no such options.
    """

    wire = Wire(
        name="gemini",
        provider="gemini",
        build_url=_build_url,
        encode=lambda request, model, provider, forward: to_wire(request, model, provider),
        open_cache=open_cache,
        build_reply=_build_reply,
        list_ignored=_list_ignored,
        key_header="x-goog-api-key",
    )


from_wire = Gemini.wire.read
