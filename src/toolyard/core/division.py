"""What holds for the callers of one division or one tenant, in place of what holds for everybody."""

from collections.abc import Mapping

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.limits import Limits


class Division(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    """Comes after the base prompt."""
    tools: frozenset[str] | None = None
    """Of the server's own tools those that it may use; None means all. The application's tools are its own."""
    limits: Limits | None = None
    requests_per_minute: int | None = None
    language: str = ""
    """Of the sentences that no model says."""


Divisions = Mapping[tuple[str, str], Division]
"""By tenant and division; an empty name stands for any."""
DEFAULT_DIVISION = Division()
NO_DIVISIONS: Divisions = {}


def find_division(caller: Caller, divisions: Divisions) -> Division | None:
    """What holds for a caller: what is said of their division in their tenant, of the tenant, or of the division."""
    for place in ((caller.tenant, caller.division), (caller.tenant, ""), ("", caller.division)):
        if place in divisions:
            return divisions[place]
    return None
