"""The Messages wire: Anthropic, and every provider with the same API."""

from toolyard.core.messages_blocks import decode_request, unseal
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.models.options import Options
from toolyard.models.http.request import build_url
from toolyard.models.http_model import HttpModel, Wire
from toolyard.models.messages.history import find_open_calls
from toolyard.models.messages.request import UNSENT_OPTIONS, open_cache, select_sent_extras, to_wire
from toolyard.models.messages.stream import MessagesReply
from toolyard.models.shared.option_support import list_ignored

__all__ = ["Anthropic", "from_wire", "to_wire"]

VERSION = "2023-06-01"


def _build_url(base_url: str, model: str) -> str:
    """Return the URL of the API. The base URL may end in `/v1`, as that of other providers does."""
    path, mark, query = base_url.strip().partition("?")
    return build_url(path.rstrip("/").removesuffix("/v1") + mark + query, "/v1/messages")


def _build_reply(request: ModelRequest, model: str, provider: str) -> MessagesReply:
    return MessagesReply(request.clock, request.turn, provider, find_open_calls(request.history, provider))


def _list_betas(request: ModelRequest, provider: str) -> list[str]:
    native = unseal(request.native, provider, decode_request)
    return native.betas if native else []


def _list_ignored(options: Options, model: str, provider: str, forward: frozenset[str]) -> list[str]:
    return list_ignored(options, select_sent_extras(options, forward), UNSENT_OPTIONS)


class Anthropic(HttpModel):
    """A model behind `{base_url}/v1/messages`."""

    wire = Wire(
        name="messages",
        provider="anthropic",
        build_url=_build_url,
        encode=to_wire,
        open_cache=open_cache,
        build_reply=_build_reply,
        list_ignored=_list_ignored,
        list_betas=_list_betas,
        key_header="x-api-key",
        headers={"anthropic-version": VERSION},
    )


from_wire = Anthropic.wire.read
