"""Limits, and what holds for a division or a tenant in place of what holds for everybody."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.limits import Limits
from toolyard.server.config.values import Count, CountOrNone, Language, Name, Seconds

ToolChoice = Literal["all", "none"] | tuple[Name, ...]
_CORE = Limits()


class LimitsConfig(Struct, frozen=True, kw_only=True):
    turns_per_request: Count = _CORE.turns_per_request
    turns_per_conversation: Count = _CORE.turns_per_conversation
    requests_per_minute: Count = 30
    """New requests of one caller; tool results and decisions do not count."""
    run_seconds: Seconds = _CORE.run_seconds
    run_tokens: CountOrNone = _CORE.run_tokens
    calls_per_turn: Count = _CORE.calls_per_turn
    parallel_calls: Count = _CORE.parallel_calls
    queued_messages: Count = _CORE.queued_messages

    @property
    def run_limits(self) -> Limits:
        """The limits that the loop knows; requests per minute are counted before it."""
        return msgspec.convert(self, Limits, from_attributes=True)


class DivisionConfig(Struct, frozen=True, kw_only=True):
    prompt: str = ""
    language: Language = ""
    tools: ToolChoice = "all"
    limits: LimitsConfig = LimitsConfig()
    """Complete: what a division does not set is as in `[limits]`."""


class TenantConfig(DivisionConfig, frozen=True, kw_only=True):
    divisions: dict[Name, DivisionConfig] = {}
    """Complete: every division there is. One that stands here is in place of that of everybody."""


class DivisionOverrides(Struct):
    limits: dict[str, object] = {}


class TenantOverrides(DivisionOverrides):
    divisions: dict[str, DivisionOverrides] = {}


class LimitOverrides(Struct):
    """The part of the tree that says which limits each division and each tenant sets itself."""

    divisions: dict[str, DivisionOverrides] = {}
    tenants: dict[str, TenantOverrides] = {}


def complete_limits(
    limits: LimitsConfig,
    divisions: Mapping[str, DivisionConfig],
    tenants: Mapping[str, TenantConfig],
    overrides: LimitOverrides,
) -> tuple[dict[str, DivisionConfig], dict[str, TenantConfig]]:
    """With the limits of everybody where a division sets none, and with every division in each tenant."""
    whole = {
        name: replace(one, limits=_override_limits(limits, one.limits, overrides.divisions[name]))
        for name, one in divisions.items()
    }
    found: dict[str, TenantConfig] = {}
    for name, tenant in tenants.items():
        said = overrides.tenants[name]
        own: dict[str, DivisionConfig] = {}
        for division in {**whole, **tenant.divisions}:
            one = tenant.divisions.get(division) or whole[division]
            general = whole[division].limits if division in whole else limits
            least = _override_limits(general, tenant.limits, said)
            own[division] = replace(one, limits=_override_limits(least, one.limits, said.divisions.get(division)))
        found[name] = replace(tenant, limits=_override_limits(limits, tenant.limits, said), divisions=own)
    return whole, found


def _override_limits(
    limits: LimitsConfig, own_limits: LimitsConfig, overrides: DivisionOverrides | None
) -> LimitsConfig:
    """The limits with those that were given in place of them."""
    return replace(limits, **{name: getattr(own_limits, name) for name in overrides.limits}) if overrides else limits
