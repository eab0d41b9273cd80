"""Where a text comes from, as a provider tells it. Only an address of the web is kept as one: it is made a link."""

from toolyard.core.items import Citation

WEB = ("https://", "http://")


def citation(start: int, end: int, url: str | None, title: str | None, quote: str | None = "") -> Citation:
    """What is not of the web may still say what it is, if nothing else does."""
    address = url if url and url.lower().startswith(WEB) else ""
    return Citation(start=start, end=end, url=address, title=title or ("" if address else url or ""), quote=quote or "")
