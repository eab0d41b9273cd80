"""`If-Match`, `If-None-Match` and `ETag`: a change takes effect only if nobody else has made one meanwhile."""

from toolyard.surfaces.http.request_context import HttpRequest, get_request_head

ANY = "*"


def read_expected_version(request: HttpRequest) -> str | None:
    """Return the version that the client has seen, empty for none yet; None if the client does not care."""
    headers = get_request_head(request.scope).headers
    if headers.get("if-none-match", "").strip() == ANY:
        return ""
    expected = headers.get("if-match", "").strip()
    return None if expected in ("", ANY) else expected.removeprefix("W/").strip('"')


def build_etag(version: str) -> dict[str, str]:
    return {"etag": f'"{version}"'} if version else {}
