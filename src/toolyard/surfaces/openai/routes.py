"""The surface of `/v1`."""

from toolyard.surfaces.openai import conversations, models
from toolyard.surfaces.openai.chat import routes as chat
from toolyard.surfaces.openai.errors import encode_error
from toolyard.surfaces.openai.responses import routes as responses
from toolyard.surfaces.shared.whole_history.run_starter import CONVERSATION_HEADER
from toolyard.surfaces.surface import Surface

WEBSOCKET_PATHS = frozenset({responses.PATH})
PATHS = frozenset({"/v1/*"})


SURFACE = Surface(
    routes=(*models.ROUTES, *conversations.ROUTES, *chat.ROUTES, *responses.ROUTES),
    websocket_paths=WEBSOCKET_PATHS,
    error_paths=PATHS,
    encode_error=encode_error,
    response_headers=(
        "x-request-id",
        CONVERSATION_HEADER,
        "x-ratelimit-limit-requests",
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
)
