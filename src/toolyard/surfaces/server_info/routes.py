"""`/healthz`, `/openapi.json` and `/docs`, which need no key."""

import html
from functools import cache
from importlib.metadata import version
from typing import cast

from litestar import Litestar, get
from msgspec import Struct

from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.surface import Surface


class Health(Struct, kw_only=True):
    status: str
    version: str


@get("/healthz", responses={status: ERRORS[status] for status in (403, 405)}, tags=["server"])
async def healthz() -> Health:
    """Return 200 if the server answers. Needs no key."""
    return build_health()


@cache  # a probe may ask every second, and the version is read from a file
def build_health() -> Health:
    return Health(status="ok", version=version("toolyard"))


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def openapi(request: HttpRequest) -> dict[str, object]:
    return get_openapi_document(request.app)


DOCS_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@get(
    "/docs",
    include_in_schema=False,
    media_type="text/html",
    response_headers={"content-security-policy": DOCS_POLICY, "referrer-policy": "no-referrer"},
    sync_to_thread=False,
)
def docs(request: HttpRequest) -> str:
    """Return the API as a plain HTML page without scripts, styles or other files."""
    paths = cast(dict[str, dict[str, dict[str, str]]], get_openapi_document(request.app)["paths"])
    rows = [
        f"<tr><td><code>{method.upper()}</code></td><td><code>{html.escape(path)}</code></td>"
        f"<td>{html.escape(about.get('description', ''))}</td></tr>"
        for path, methods in sorted(paths.items())
        for method, about in methods.items()
    ]
    return DOCS_PAGE.format(rows="\n".join(rows))


def get_openapi_document(app: Litestar) -> dict[str, object]:
    """Return the OpenAPI document. It is built once: that is slow, and the route needs no key."""
    if "description" not in app.state:
        from toolyard.surfaces.server_info.stream_schemas import add_stream_schemas

        document = app.openapi_schema.to_schema()
        add_stream_schemas(document)
        app.state["description"] = document
    return cast(dict[str, object], app.state["description"])


DOCS_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Toolyard API</title>
<h1>Toolyard API</h1>
<p>The whole description, for machines and generators: <a href="openapi.json">openapi.json</a>.</p>
<table border="1" cellpadding="6" cellspacing="0">
<tr><th>method</th><th>path</th><th>description</th></tr>
{rows}
</table></html>
"""

SURFACE = Surface(
    routes=(healthz, openapi, docs),
    public_paths=frozenset({"/healthz", "/openapi.json", "/docs"}),
    quiet_paths=frozenset({"/healthz"}),
)
