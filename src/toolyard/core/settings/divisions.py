"""Settings for the callers of a division or a tenant, in place of the server's."""

from collections.abc import Mapping

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.settings.limits import Limits


class Division(Struct, frozen=True, kw_only=True):
    """The prompt, tools and limits of a division or a tenant."""

    prompt: str = ""
    """Added after the base prompt."""
    tools: frozenset[str] | None = None
    """The server's tools that it may use; None means all. An application's tools are not restricted."""
    limits: Limits | None = None
    requests_per_minute: int | None = None
    language: str = ""
    """The language of the server's own messages to users."""


Divisions = Mapping[tuple[str, str], Division]
"""By tenant and division; an empty name means any."""
DEFAULT_DIVISION = Division()
NO_DIVISIONS: Divisions = {}


def find_division(caller: Caller, divisions: Divisions) -> Division | None:
    """Return the most specific entry for a caller: of their division and tenant, of the tenant, or of the division."""
    for key in ((caller.tenant, caller.division), (caller.tenant, ""), ("", caller.division)):
        if key in divisions:
            return divisions[key]
    return None
