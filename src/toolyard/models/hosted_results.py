"""What providers' own tools came to, as a conversation keeps it: a result of bounded size, and citations. Pure."""

from toolyard.core.items import Call, Citation, Outcome, Problem, Result, Seal, result_id
from toolyard.core.results import find_char_boundary

MAX_CONTENT_BYTES = 32_768
"""Of a result, for whoever reads the conversation. What the provider wants back is in the seal, whole."""
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
    )


def _shorten(content: str) -> str:
    if len(content) * 4 <= MAX_CONTENT_BYTES or len(whole := content.encode()) <= MAX_CONTENT_BYTES:
        return content
    head = whole[: find_char_boundary(whole, MAX_CONTENT_BYTES)].decode()
    return f"{head}\n… [{len(whole):,} bytes in all; the rest is left out here]"


def build_citation(start: int, end: int, url: str | None, title: str | None, quote: str | None = "") -> Citation:
    """Only an address of the web is kept as one, since it is made a link; any other may still say what it is."""
    address = url if url and url.lower().startswith(WEB_SCHEMES) else ""
    return Citation(start=start, end=end, url=address, title=title or ("" if address else url or ""), quote=quote or "")
