"""The routes of `/tools`, `/models`, `/providers`, `/me` and `/session`."""

from toolyard.surfaces.catalog import me, models, providers, session, tools
from toolyard.surfaces.surface import Backend, Route, Surface


def routes(backend: Backend) -> list[Route]:
    return [
        *tools.routes(backend.service),
        *me.routes(backend.service, backend.access),
        *session.routes(backend.sessions),
        *models.routes(backend.service),
        *providers.routes(backend.provider_cards),
    ]


SURFACE = Surface(
    routes=routes,
    # Signing in needs no key; the route itself checks where the request comes from.
    public_paths=frozenset({"/session"}),
    session_paths=frozenset({"/me", "/tools", "/models", "/providers", "/providers/*"}),
)
