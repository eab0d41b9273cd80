"""The surface of `/v1`."""

from collections.abc import Sequence

from toolyard.surfaces.openai import conversations, models
from toolyard.surfaces.openai.chat import routes as chat
from toolyard.surfaces.openai.errors import encode_error, name_headers
from toolyard.surfaces.openai.responses import routes as responses
from toolyard.surfaces.shared.whole_history.run_starter import CONVERSATION_HEADER, RunStarter
from toolyard.surfaces.surface import Backend, Route, Surface

WEBSOCKET_PATHS = frozenset({responses.PATH})
PATHS = frozenset({"/v1/*"})


def routes(backend: Backend) -> Sequence[Route]:
    starter = RunStarter(
        backend.service, name_headers, approval_hold_s=backend.approval_hold_s, leave_s=backend.leave_s
    )
    return [
        *models.routes(backend.service),
        *conversations.routes(backend.service),
        *chat.routes(backend.service, starter),
        *responses.routes(backend.service, starter, backend.access, backend.socket_limits),
    ]


SURFACE = Surface(
    routes=routes,
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
