"""Log one line for each request."""

import logging
from collections.abc import Mapping

from toolyard.observability.log_lines import log_line
from toolyard.surfaces.http.errors import ERROR_KEY
from toolyard.surfaces.http.request_context import CONTEXT_KEY, RequestContext, RequestHead, get_client_address
from toolyard.surfaces.surface import ErrorBody

_log = logging.getLogger("toolyard.http")


def log_request(scope: Mapping[str, object], head: RequestHead, duration_s: float, *, quiet: bool) -> None:
    """Log a request, also one that ended before a response was started."""
    level = choose_level(head.status, quiet=quiet)
    if not _log.isEnabledFor(level):
        return
    context, error = scope.get(CONTEXT_KEY), scope.get(ERROR_KEY)
    problem: dict[str, object] = {}
    if isinstance(error, ErrorBody):
        problem = {"error_type": error.error_type, "error": error.error, "details": error.details}
    log_line(
        _log,
        level,
        head.correlation_id,
        "Request finished" if head.status else "Request cut off",
        method=scope["method"],
        path=_mask_token(head.path),
        status=head.status,
        duration_ms=round(duration_s * 1000, 1),
        user=context.caller.user if isinstance(context, RequestContext) else "",
        client=get_client_address(scope),
        **problem,
    )


def _mask_token(path: str) -> str:
    """Return the path without the token of a link to a shared conversation, which opens it."""
    return "/shares/***" if path.startswith("/shares/") else path


def choose_level(status: int, *, quiet: bool) -> int:
    if status == 503 and quiet:  # a probe of a server that drains or waits for its store, which are logged themselves
        return logging.INFO
    if status >= 500:
        return logging.ERROR
    if quiet:
        return logging.DEBUG
    return logging.WARNING if status >= 400 else logging.INFO
