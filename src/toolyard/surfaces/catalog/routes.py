"""The routes of `/tools`, `/models`, `/providers`, `/me` and `/session`."""

from toolyard.surfaces.catalog import me, models, provider_sign_in, providers, session, tools
from toolyard.surfaces.surface import Backend, Route, Surface


def routes(backend: Backend) -> list[Route]:
    return [
        *tools.routes(backend.service),
        *me.routes(backend.service, backend.access),
        *session.routes(backend.sessions, backend.provider_sign_ins),
        *provider_sign_in.routes(backend.sessions, backend.provider_sign_ins),
        *models.routes(backend.service),
        *providers.routes(backend.provider_cards),
    ]


SURFACE = Surface(
    routes=routes,
    # Signing in needs no key; the routes themselves check where the request comes from.
    public_paths=frozenset({"/session", provider_sign_in.BEGIN_PATH, provider_sign_in.CALLBACK_PATH}),
    session_paths=frozenset({"/me", "/tools", "/models", "/providers", "/providers/*"}),
)
