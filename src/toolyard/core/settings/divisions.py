"""Settings for the callers of a division or a tenant, in place of the server's. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from toolyard.core.caller import Caller
from toolyard.core.settings.limits import Limits, LimitsConfig
from toolyard.core.settings.texts import BUILT_IN_TEXTS, CustomTexts, has_texts
from toolyard.core.settings.types import Count, CountOrZero, Language, LongText, Name, Seconds

ToolChoice = Literal["all", "none"] | tuple[Name, ...]


class LimitOverrides(Struct, frozen=True, kw_only=True):
    """The limits that a division or a tenant has of its own; where one is None, the more general one counts."""

    turns_per_request: Count | None = None
    turns_per_conversation: Count | None = None
    run_seconds: Seconds | None = None
    run_tokens: CountOrZero | None = None
    calls_per_turn: Count | None = None
    parallel_calls: Count | None = None
    queued_messages: Count | None = None
    requests_per_minute: Count | None = None
    program_calls: Count | None = None
    program_step_seconds: Seconds | None = None
    program_seconds: Seconds | None = None
    program_memory_bytes: Count | None = None
    program_printed_bytes: Count | None = None
    program_value_bytes: Count | None = None
    program_argument_bytes: Count | None = None

    def apply_to(self, limits: LimitsConfig) -> LimitsConfig:
        return replace(limits, **{name: value for name, value in asdict(self).items() if value is not None})


class DivisionConfig(Struct, frozen=True, kw_only=True):
    """A division, as the configuration file and the store set it."""

    prompt: LongText = ""
    language: Language = ""
    tools: ToolChoice = "all"
    limits: LimitOverrides = LimitOverrides()


class TenantConfig(DivisionConfig, frozen=True, kw_only=True):
    """A tenant, as the configuration file and the store set it."""

    divisions: dict[Name, DivisionConfig] = {}
    """Divisions of this tenant only. One that is set here replaces the shared one of its name."""

    def is_bounded_as(self, other: "TenantConfig") -> bool:
        """Return whether two settings differ at most in prompts and languages, and so allow the same."""
        return self._strip_words() == other._strip_words()

    def _strip_words(self) -> "TenantConfig":
        divisions = {name: replace(division, prompt="", language="") for name, division in self.divisions.items()}
        return replace(self, prompt="", language="", divisions=divisions)


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
    if not divisions:
        return None
    for key in ((caller.tenant, caller.division), (caller.tenant, ""), ("", caller.division)):
        if key in divisions:
            return divisions[key]
    return None


def build_divisions(
    divisions: Mapping[str, DivisionConfig], tenants: Mapping[str, TenantConfig], limits: LimitsConfig
) -> Divisions:
    """Return the divisions by tenant and name, with every limit filled in and with every division in each tenant.

    Limits go from general to specific: those of the server, the shared division, the tenant, the tenant's own division.
    A division of a tenant combines both: it has both prompts, and only the tools that both may use.
    """
    built = {("", name): _build_division(division, limits) for name, division in divisions.items()}
    for tenant_name, tenant in tenants.items():
        of_tenant = built[tenant_name, ""] = _build_division(tenant, limits)
        for name in {**divisions, **tenant.divisions}:
            shared = divisions.get(name, DivisionConfig())
            chosen = tenant.divisions.get(name) or shared
            own_limits = tenant.limits.apply_to(shared.limits.apply_to(limits))
            if name not in tenant.divisions:
                chosen = replace(chosen, limits=LimitOverrides())
            division = _build_division(chosen, own_limits)
            built[tenant_name, name] = replace(
                division,
                prompt="\n\n".join(prompt for prompt in (of_tenant.prompt, division.prompt) if prompt),
                tools=_intersect(of_tenant.tools, division.tools),
                language=division.language or of_tenant.language,
            )
    return built


def _build_division(division: DivisionConfig, limits: LimitsConfig) -> Division:
    complete = division.limits.apply_to(limits)
    return Division(
        prompt=division.prompt.strip(),
        tools=list_chosen_tools(division.tools),
        limits=complete.run_limits,
        requests_per_minute=complete.requests_per_minute,
        language=division.language,
    )


def list_chosen_tools(choice: ToolChoice) -> frozenset[str] | None:
    """Return the chosen names, None for all."""
    return None if choice == "all" else frozenset() if choice == "none" else frozenset(choice)


def _intersect(first: frozenset[str] | None, second: frozenset[str] | None) -> frozenset[str] | None:
    """Return the tools that both choices contain; None stands for all tools."""
    return second if first is None else first if second is None else first & second


def iter_division_configs(
    divisions: Mapping[str, DivisionConfig], tenants: Mapping[str, TenantConfig]
) -> Iterator[tuple[tuple[str, ...], DivisionConfig]]:
    """Yield each division and tenant with its path in a configuration."""
    for name, division in divisions.items():
        yield ("divisions", name), division
    for tenant_name, tenant in tenants.items():
        yield ("tenants", tenant_name), tenant
        for name, division in tenant.divisions.items():
            yield ("tenants", tenant_name, "divisions", name), division


def iter_language_problems(
    divisions: Mapping[str, DivisionConfig],
    tenants: Mapping[str, TenantConfig],
    texts: CustomTexts,
    language: str = "",
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the problem of each language without texts. `language` is the server's own."""
    named = [(path, division.language) for path, division in iter_division_configs(divisions, tenants)]
    for path, chosen in [((), language), *named]:
        setting = (*path, "language")
        if chosen and not has_texts(chosen, texts):
            languages = ", ".join(sorted(BUILT_IN_TEXTS))
            advice = f"add [texts.{chosen}] with limit and failed, or choose one of {languages}"
            yield setting, f"names {chosen!r} ({'.'.join(setting)}), in which there are no texts: {advice}"


def iter_tool_problems(
    divisions: Mapping[str, DivisionConfig], tenants: Mapping[str, TenantConfig], tool_names: Collection[str] | None
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the path and the problem of each choice of tools that names none. Without `tool_names`, any may exist."""
    for path, division in iter_division_configs(divisions, tenants) if tool_names is not None else ():
        unknown = sorted((list_chosen_tools(division.tools) or frozenset()).difference(tool_names or ()))
        if unknown:
            yield (*path, "tools"), f"names {unknown[0][:80]!r}, which is not a tool"
