"""Limits, and the settings with which a division or a tenant replaces those that hold for everybody."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.settings.limits import LimitsConfig
from toolyard.core.settings.types import Language, Name

ToolChoice = Literal["all", "none"] | tuple[Name, ...]


class DivisionConfig(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    language: Language = ""
    tools: ToolChoice = "all"
    limits: LimitsConfig = LimitsConfig()
    """After `load`, complete: a limit that the division does not set is the one of `[limits]`."""


class TenantConfig(DivisionConfig, frozen=True, kw_only=True):
    divisions: dict[Name, DivisionConfig] = {}
    """After `load`, complete: every division of the configuration. One that is set here replaces the shared one."""


class DivisionOverrides(Struct):
    limits: dict[str, object] = {}


class TenantOverrides(DivisionOverrides):
    divisions: dict[str, DivisionOverrides] = {}


class LimitOverrides(Struct):
    """The limits that each division and each tenant sets itself, read from the tree of plain values.

    A `LimitsConfig` cannot tell a limit that was set from a default, so the names are taken from the tree.
    """

    divisions: dict[str, DivisionOverrides] = {}
    tenants: dict[str, TenantOverrides] = {}


def complete_limits(
    limits: LimitsConfig,
    divisions: Mapping[str, DivisionConfig],
    tenants: Mapping[str, TenantConfig],
    overrides: LimitOverrides,
) -> tuple[dict[str, DivisionConfig], dict[str, TenantConfig]]:
    """Return the divisions and tenants with every limit filled in, and with every division in each tenant."""
    shared = {
        name: replace(division, limits=_override_limits(limits, division.limits, overrides.divisions[name]))
        for name, division in divisions.items()
    }
    complete_tenants: dict[str, TenantConfig] = {}
    for tenant_name, tenant in tenants.items():
        from_tenant = overrides.tenants[tenant_name]
        complete_divisions: dict[str, DivisionConfig] = {}
        for name in {**shared, **tenant.divisions}:
            # From general to specific: [limits], the shared division, the tenant, the tenant's own division.
            division = tenant.divisions.get(name) or shared[name]
            general = shared[name].limits if name in shared else limits
            default = _override_limits(general, tenant.limits, from_tenant)
            own_limits = _override_limits(default, division.limits, from_tenant.divisions.get(name))
            complete_divisions[name] = replace(division, limits=own_limits)
        own_limits = _override_limits(limits, tenant.limits, from_tenant)
        complete_tenants[tenant_name] = replace(tenant, limits=own_limits, divisions=complete_divisions)
    return shared, complete_tenants


def _override_limits(
    limits: LimitsConfig, own_limits: LimitsConfig, overrides: DivisionOverrides | None
) -> LimitsConfig:
    """Return `limits` with the values of `own_limits` for the names that the overrides set."""
    return replace(limits, **{name: getattr(own_limits, name) for name in overrides.limits}) if overrides else limits
