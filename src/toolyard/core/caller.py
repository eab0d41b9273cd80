"""Callers and what they may see and decide. `engine.access.authentication` makes callers from keys and tokens."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from toolyard.core.tool_identity import BoundName

BUILT_IN_ROLES = frozenset({"admin", "operator", "approver"})
"""Roles that Toolyard itself uses. Any other role has a meaning only in the rules of tools."""


ServerTools = Literal["", "all", "none"]
"""Whether the server's tools run in a request that may bring tools of its own; empty leaves it to the endpoint."""


class Caller(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The person or program on whose behalf a run is made."""

    user: str = "local"
    roles: frozenset[str] = frozenset()
    tenant: str = ""
    division: str = ""
    locale: str = "en"
    tools: frozenset[str] = frozenset()
    """The tools that the caller's key is limited to, by name or as patterns; empty means any."""
    bound_tools: frozenset[BoundName] = frozenset()
    """Those of `tools` that name a tool of a server, with that tool. Names of the configuration file are not bound."""
    models: frozenset[str] = frozenset()
    """The models that the caller's key is limited to, by name or as patterns; empty means any."""
    key: str = ""
    """The name of the API key of the request; empty for a person, a token or a program of its own."""
    server_tools: ServerTools = ""
    """What the caller's key says of the server's tools, where a request says nothing."""

    @property
    def administers_server(self) -> bool:
        """Return whether this caller may change what all tenants share: an administrator without a tenant."""
        return "admin" in self.roles and not self.tenant

    @property
    def observes_server(self) -> bool:
        """Return whether this caller may read statistics of all tenants together."""
        return not self.tenant and bool(self.roles & {"admin", "operator"})

    def may_use_model(self, name: str) -> bool:
        """Return whether the caller's key admits a model."""
        return is_admitted(name, self.models)

    def owns(self, other: "Caller") -> bool:
        """Return whether this is the same user of the same tenant."""
        return (self.user, self.tenant) == (other.user, other.tenant)

    def may_see(self, owner: "Caller") -> bool:
        """Return whether this caller may see what `owner` owns: their own things, or as an operator or approver."""
        return self.owns(owner) or (self.tenant == owner.tenant and bool(self.roles & {"operator", "approver"}))

    def may_decide_for(self, owner: "Caller") -> bool:
        """Return whether this caller may decide a call of `owner`: their own calls, or as an approver of the tenant."""
        return self.owns(owner) or (self.tenant == owner.tenant and "approver" in self.roles)


def is_admitted(name: str, patterns: Collection[str]) -> bool:
    """Return whether a name matches one of a key's patterns, or the key has none and so admits every name."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
