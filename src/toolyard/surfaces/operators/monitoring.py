"""`GET /readyz` for load balancers and supervisors, and `GET /metrics` for Prometheus."""

from typing import Literal

from litestar import Response, get
from msgspec import Struct

from toolyard.core.errors import Unavailable
from toolyard.observability.metrics import CONTENT_TYPE
from toolyard.surfaces.http.authorization import require_server_observer
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest


class Readiness(Struct, kw_only=True):
    status: Literal["ready"] = "ready"
    ok: bool = True


@get("/readyz", responses={status: ERRORS[status] for status in (403, 405, 503)}, tags=["server"])
async def readyz(request: HttpRequest) -> Readiness:
    """Return 200 if the server can work: its store accepts writes, and it is not stopping. Needs no key."""
    if reason := await request.backend.service.find_unreadiness():
        raise Unavailable(reason)
    return Readiness()


@get("/metrics", responses=ERRORS, media_type="text/plain", tags=["server"])
async def metrics(request: HttpRequest) -> Response[str]:
    """Return metrics for Prometheus: runs, turns, calls by tool and outcome, latencies, tokens, open streams."""
    service = request.backend.service
    require_server_observer(request, "metrics are about all tenants")
    return Response(service.metrics.render(await service.measure_load()), media_type=CONTENT_TYPE)


ROUTES = (readyz, metrics)
