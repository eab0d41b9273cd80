"""The routes for operators: servers, keys, traces, runs, metrics and readiness."""

from toolyard.surfaces.operators import (
    access,
    audit,
    keys,
    monitoring,
    runs,
    server_changes,
    server_sign_ins,
    servers,
    traces,
)
from toolyard.surfaces.surface import Surface

_MODULES = (monitoring, traces, runs, keys, access, audit, servers, server_changes, server_sign_ins)


SURFACE = Surface(
    routes=tuple(route for module in _MODULES for route in module.ROUTES),
    public_paths=frozenset({"/readyz"}),
    session_paths=frozenset(
        {
            "/access",
            "/audit",
            "/audit/*",
            "/keys",
            "/keys/*",
            "/live",
            "/metrics",
            "/overview",
            "/servers",
            "/servers/*",
            "/traces",
            "/traces/*",
        }
    ),
    quiet_paths=frozenset({"/readyz"}),
)
