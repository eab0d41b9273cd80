"""The routes of `/tools`, `/models`, `/providers` and `/me`."""

from toolyard.surfaces.catalog import me, models, providers, tools
from toolyard.surfaces.surface import Backend, Route, Surface


def routes(backend: Backend) -> list[Route]:
    return [
        *tools.routes(backend.service),
        *me.routes(backend.service, backend.access),
        *models.routes(backend.service),
        *providers.routes(backend.provider_cards),
    ]


SURFACE = Surface(routes=routes)
