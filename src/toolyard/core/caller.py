"""Who asks. It does not know how a caller was authenticated."""

from msgspec import Struct

BUILT_IN_ROLES = frozenset({"admin", "operator", "approver"})
"""Roles that mean something to Toolyard itself. Any other role means only what the rules of tools make of it."""


class Caller(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The person or program on whose behalf a run is made."""

    user: str = "local"
    roles: frozenset[str] = frozenset()
    tenant: str = ""
    division: str = ""
    locale: str = "en"

    @property
    def administers_server(self) -> bool:
        """Whether this caller may change what all tenants share: an administrator who belongs to none of them."""
        return "admin" in self.roles and not self.tenant

    @property
    def observes_server(self) -> bool:
        """Whether this caller may read figures that are about all tenants together."""
        return not self.tenant and bool(self.roles & {"admin", "operator"})

    def owns(self, other: "Caller") -> bool:
        """Whether this is the same user of the same tenant."""
        return (self.user, self.tenant) == (other.user, other.tenant)

    def may_see(self, owner: "Caller") -> bool:
        """What belongs to somebody else is seen by the operators and approvers of the tenant."""
        return self.owns(owner) or (self.tenant == owner.tenant and bool(self.roles & {"operator", "approver"}))

    def may_decide_for(self, owner: "Caller") -> bool:
        """Deciding a call is open to the conversation's owner and to the approvers of the tenant."""
        return self.owns(owner) or (self.tenant == owner.tenant and "approver" in self.roles)
