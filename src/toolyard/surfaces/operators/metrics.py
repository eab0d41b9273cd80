"""`GET /metrics`: counters and latencies for Prometheus, for operators and administrators of the server."""

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from toolyard.engine.service import Service
from toolyard.observability.metrics import CONTENT_TYPE
from toolyard.surfaces.http.authorization import require_server_observer
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get("/metrics", responses=ERRORS, media_type="text/plain", tags=["server"])
    async def metrics(request: HttpRequest) -> Response[str]:
        """Return metrics for Prometheus: runs, turns, calls by tool and outcome, latencies, tokens, open streams."""
        require_server_observer(request, "metrics are about all tenants")
        return Response(service.metrics.render(await service.measure_load()), media_type=CONTENT_TYPE)

    return [metrics]
