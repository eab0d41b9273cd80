"""The routes of `/tools`, `/models`, `/providers`, `/me`, `/me/instructions`, `/files/text` and `/session`."""

from toolyard.surfaces.catalog import files, instructions, me, models, provider_sign_in, providers, session, tools
from toolyard.surfaces.surface import Surface

_MODULES = (tools, me, instructions, files, session, provider_sign_in, models, providers)


SURFACE = Surface(
    routes=tuple(route for module in _MODULES for route in module.ROUTES),
    # Signing in needs no key; the routes themselves check where the request comes from.
    public_paths=frozenset({"/session", provider_sign_in.BEGIN_PATH, provider_sign_in.CALLBACK_PATH}),
    session_paths=frozenset({"/files/*", "/me", "/me/*", "/tools", "/models", "/providers", "/providers/*"}),
)
