"""`GET /`, `/diagram` and `/assets/…`: the web page, built into the package. It is public and holds no data.

The page requests its data over the API with the user's own key, and loads nothing from other origins.
"""

import base64
import gzip
import hashlib
import re
from functools import lru_cache
from pathlib import Path

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from toolyard.core.errors import NotFound
from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.surface import Surface

PAGE_DIRECTORY = Path(__file__).parents[2] / "page"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
# The frame that draws diagrams needs inline styles, which the page forbids. `sandbox` gives it an opaque origin however
# it is opened: what it draws can reach neither the page nor the API as the user. Only its own script runs.
DIAGRAM_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'sha256-{digest}'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-scripts",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)+")


def build_routes(folder: Path) -> tuple[HTTPRouteHandler, ...]:
    @get("/", include_in_schema=False, media_type="text/html", sync_to_thread=False)
    def index() -> Response[bytes]:
        """Return the page, or instructions to build it in a source checkout."""
        built = folder / "index.html"
        body = built.read_bytes() if built.is_file() else NOT_BUILT
        return Response(body, media_type="text/html", headers={**HEADERS, "cache-control": "no-cache"})

    # In a thread: compressing this file takes longer than a request may hold up all others.
    @get("/diagram", include_in_schema=False, media_type="text/html", sync_to_thread=True)
    def diagram(request: HttpRequest) -> Response[bytes]:
        """Return the document of the frame that draws diagrams; 304 if the client has it already."""
        built = folder / "diagram.html"
        if not built.is_file():
            raise NotFound("the page is not built")
        digest = _hash_script(built, built.stat().st_mtime_ns)
        headers = {
            **HEADERS,
            "content-security-policy": DIAGRAM_POLICY.format(digest=digest),
            "cache-control": "no-cache",
            "etag": f'"{digest}"',
        }
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(b"", status_code=304, media_type="text/html", headers=headers)
        return _respond_with_file(request, built, "text/html", headers)

    @get("/assets/{name:str}", include_in_schema=False, sync_to_thread=False)
    def asset(request: HttpRequest, name: PathId) -> Response[bytes]:
        """Return a file of the page. Its name changes with its content, so it may be cached forever."""
        path = folder / "assets" / name
        kind = MEDIA_TYPES.get(path.suffix)
        if kind is None or not _NAME.fullmatch(name) or not path.is_file():
            raise NotFound(f"there is no file {name[:80]!r} in this page")
        headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
        return _respond_with_file(request, path, kind, headers)

    return index, diagram, asset


def _respond_with_file(request: HttpRequest, path: Path, kind: str, headers: dict[str, str]) -> Response[bytes]:
    headers = {**headers, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(path.read_bytes(), media_type=kind, headers=headers)
    compressed = _gzip_file(path, path.stat().st_mtime_ns)
    return Response(compressed, media_type=kind, headers={**headers, "content-encoding": "gzip"})


# A file that is built anew has another time of modification, so that neither function returns what it was before.
@lru_cache(maxsize=256)
def _gzip_file(path: Path, modified_ns: int) -> bytes:
    return gzip.compress(path.read_bytes(), 9)


@lru_cache(maxsize=4)
def _hash_script(path: Path, modified_ns: int) -> str:
    """Return the digest of a document's inline script, as a Content-Security-Policy names it."""
    script = path.read_bytes().partition(b"<script>")[2].partition(b"</script>")[0]
    return base64.b64encode(hashlib.sha256(script).digest()).decode()


NOT_BUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Toolyard</title>
<h1>The page is not built</h1>
<p>This server runs from a source checkout in which the web page was not built yet. In the checkout, run</p>
<pre>make page</pre>
<p>and load this page again. The server itself works without it: see <a href="docs">the API</a>.</p>
</html>
"""


_PUBLIC_FILES = frozenset({"/", "/diagram", "/assets/*"})
SURFACE = Surface(
    routes=build_routes(PAGE_DIRECTORY),
    public_paths=_PUBLIC_FILES,
    quiet_paths=_PUBLIC_FILES | {"/favicon.ico"},
)
