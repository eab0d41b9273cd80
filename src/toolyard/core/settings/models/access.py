"""Who may use which models, besides what their keys are limited to. Pure."""

from collections.abc import Mapping

from msgspec import Struct

from toolyard.core.caller import Caller, is_admitted
from toolyard.core.settings.types import Name

_NOTHING_DENIED = frozenset[str]()


class ModelAccess(Struct, frozen=True, kw_only=True):
    """Who may use the models of a name or pattern. What a key is limited to is a setting of the key."""

    roles: frozenset[Name] = frozenset()
    """Callers with one of these roles; empty means any role."""
    tenants: frozenset[str] = frozenset()
    """Callers of these tenants, an empty name for those without one; empty means any tenant."""

    def admits(self, caller: Caller) -> bool:
        has_role = not self.roles or bool(self.roles & caller.roles)
        return has_role and (not self.tenants or caller.tenant in self.tenants)


def list_denied_models(caller: Caller, access: Mapping[str, ModelAccess]) -> frozenset[str]:
    """Return the names and patterns of the models that are for other roles or tenants than the caller's."""
    return frozenset(name for name, rule in access.items() if not rule.admits(caller)) if access else _NOTHING_DENIED


def is_denied(name: str, denied: frozenset[str]) -> bool:
    """Return whether a model's name matches one of the names and patterns of `list_denied_models`."""
    return bool(denied) and is_admitted(name, denied)
