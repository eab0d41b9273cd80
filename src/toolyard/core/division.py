"""What holds for the callers of one division, in place of what holds for everybody."""

from msgspec import Struct

from toolyard.core.limits import Limits


class Division(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    """Comes after the base prompt."""
    tools: frozenset[str] | None = None
    """Of the server's own tools those that it may use; None means all. The application's tools are its own."""
    limits: Limits | None = None
    requests_per_minute: int | None = None


EVERYBODY = Division()
