"""`GET /readyz`: whether requests may be sent here, for a load balancer or a supervisor. Needs no key."""

from typing import Literal

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from toolyard.core.errors import Unavailable
from toolyard.engine.service import Service
from toolyard.surfaces.http.openapi import ERRORS


class Readiness(Struct, kw_only=True):
    status: Literal["ready"] = "ready"
    ok: bool = True


def routes(service: Service) -> list[HTTPRouteHandler]:
    @get("/readyz", responses={status: ERRORS[status] for status in (403, 405, 503)}, tags=["server"])
    async def readyz() -> Readiness:
        """Return 200 if the server can work: its store accepts writes, and it is not stopping. Needs no key."""
        if reason := await service.find_unreadiness():
            raise Unavailable(reason)
        return Readiness()

    return [readyz]
