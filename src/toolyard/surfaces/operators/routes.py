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
from toolyard.surfaces.surface import Backend, Route, Surface


def routes(backend: Backend) -> list[Route]:
    return [
        *monitoring.routes(backend.service),
        *traces.routes(backend.service),
        *runs.routes(backend.service),
        *keys.routes(backend.access),
        *access.routes(backend.service, backend.access),
        *audit.routes(backend.service),
        *servers.routes(backend.service, backend.servers, backend.add_servers, trust_added=backend.trust_added_servers),
        *server_changes.routes(backend.servers, backend.add_servers),
        *server_sign_ins.routes(backend.servers),
    ]


SURFACE = Surface(
    routes=routes,
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
