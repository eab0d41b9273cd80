"""`GET /metrics`: the server's counts and latencies for Prometheus, for operators and administrators only."""

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from toolyard.core.errors import Forbidden
from toolyard.engine.metrics import CONTENT_TYPE
from toolyard.engine.service import Service
from toolyard.surfaces._answers import ERRORS
from toolyard.surfaces._visit import Visitor, visit_of

READERS = frozenset({"operator", "admin"})


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get("/metrics", responses=ERRORS, media_type="text/plain", tags=["server"])
    async def metrics(request: Visitor) -> Response[str]:
        """Runs, turns, calls by tool and outcome, latencies, tokens, open streams and waiting runs."""
        if not visit_of(request.scope).caller.roles & READERS:
            raise Forbidden("metrics are read with a key that has the role operator or admin")
        return Response(service.metrics.text(await service.load()), media_type=CONTENT_TYPE)

    return [metrics]
