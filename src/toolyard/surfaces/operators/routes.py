"""The routes for operators: servers, keys, traces, runs, metrics and readiness."""

from toolyard.surfaces.operators import (
    access,
    audit,
    decisions,
    keys,
    monitoring,
    people,
    runs,
    settings,
    traces,
    usage,
)
from toolyard.surfaces.operators.servers import changes, new_servers, servers, sign_ins
from toolyard.surfaces.surface import Surface

_MODULES = (
    monitoring,
    traces,
    runs,
    decisions,
    keys,
    people,
    access,
    audit,
    servers,
    changes,
    new_servers,
    sign_ins,
    settings,
    usage,
)


SURFACE = Surface(
    routes=tuple(route for module in _MODULES for route in module.ROUTES),
    public_paths=frozenset({"/readyz"}),
    session_paths=frozenset(
        {
            "/access",
            "/audit",
            "/audit/*",
            "/budgets",
            "/connections",
            "/connections/*",
            "/decisions",
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
            "/usage",
        }
    ),
    quiet_paths=frozenset({"/readyz"}),
    response_headers=("etag",),
)
