"""Builds the results and citations of providers' own tools, as a conversation keeps them. Pure."""

from toolyard.core.failed_results import find_char_boundary
from toolyard.core.items import Call, Citation, Outcome, Problem, Result, Seal, result_id

MAX_CONTENT_BYTES = 32_768
"""The longest readable content of a result. The seal holds all of it, as the provider requires it back."""
WEB_SCHEMES = ("https://", "http://")


def build_hosted_result(
    call: Call, at: float, outcome: Outcome, content: str, error: Problem | None = None, seal: Seal | None = None
) -> Result:
    return Result(
        id=result_id(call.id),
        at=at,
        call_id=call.id,
        tool=call.tool,
        outcome=outcome,
        content=_shorten(content),
        error=error,
        ran_at=call.ran_at,
        seal=seal,
        untrusted=f"{call.tool} at {call.ran_at}",
    )


def _shorten(content: str) -> str:
    if len(content) * 4 <= MAX_CONTENT_BYTES or len(encoded := content.encode()) <= MAX_CONTENT_BYTES:
        return content
    head = encoded[: find_char_boundary(encoded, MAX_CONTENT_BYTES)].decode()
    return f"{head}\n… [{len(encoded):,} bytes in all; the rest is left out here]"


def build_citation(start: int, end: int, url: str | None, title: str | None, quote: str | None = "") -> Citation:
    """Return a citation. Only a web address becomes its URL, since pages link it; any other serves as the title."""
    address = url if url and url.lower().startswith(WEB_SCHEMES) else ""
    return Citation(start=start, end=end, url=address, title=title or ("" if address else url or ""), quote=quote or "")
