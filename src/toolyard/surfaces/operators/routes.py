"""The routes for operators: servers, keys, traces, runs, metrics and readiness."""

from toolyard.surfaces.operators import (
    access,
    audit,
    keys,
    monitoring,
    new_servers,
    people,
    runs,
    server_changes,
    server_sign_ins,
    servers,
    settings,
    traces,
)
from toolyard.surfaces.surface import Surface

_MODULES = (
    monitoring,
    traces,
    runs,
    keys,
    people,
    access,
    audit,
    servers,
    server_changes,
    new_servers,
    server_sign_ins,
    settings,
)


SURFACE = Surface(
    routes=tuple(route for module in _MODULES for route in module.ROUTES),
    public_paths=frozenset({"/readyz"}),
    session_paths=frozenset(
        {
            "/access",
            "/audit",
            "/audit/*",
            "/connections",
            "/connections/*",
            "/keys",
            "/keys/*",
            "/live",
            "/metrics",
            "/overview",
            "/people",
            "/people/*",
            "/servers",
            "/servers/*",
            "/settings",
            "/settings/*",
            "/traces",
            "/traces/*",
        }
    ),
    quiet_paths=frozenset({"/readyz"}),
    response_headers=("etag",),
)
