"""The models of a server: those of the file, and under them what the store has. Changes are checked here.

A stored setting comes from a request. So it may name no file and no address outside a provider's entry, and no key of
an environment variable is sent to an address that was stored.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from toolyard.core.errors import Invalid, Misconfigured, Refused
from toolyard.core.json_types import is_object
from toolyard.core.settings.models.access import ModelAccess
from toolyard.core.settings.models.cards import Provider, describe_model_problem
from toolyard.core.settings.models.names import is_address_or_file, is_pattern, parse_model_name
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options, merge_options
from toolyard.core.settings.runtime import GENERAL, EntryId, RuntimeSettings
from toolyard.models.providers import PROVIDERS
from toolyard.models.resolver import ModelChoice, ModelSettings, allow_any_address
from toolyard.models.token_limits import compute_usable_window, find_context_window

PROVIDERS_KIND = "providers"
_PROVIDER_NAME = re.compile(r"(?!(?:https?|local|toolyard)\Z)[A-Za-z0-9_-]{1,64}")
_SHOWN_PARAMETERS = {"api-version"}
"""Parameters of an address that are known to hold no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfiguration:
    """The models that a server has, and who may use them."""

    default: ModelChoice
    settings: ModelSettings
    windows: Mapping[str, int] = field(default_factory=dict[str, int])
    allowed: frozenset[str] | None = None
    """The models that a request may name; None means any."""
    patterns: tuple[str, ...] = ()
    access: Mapping[str, ModelAccess] = field(default_factory=dict[str, ModelAccess])
    is_public_only: Callable[[], bool] = allow_any_address
    """Returns whether stored addresses must be public."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the default model and its fallbacks; none if it is an object."""
        if isinstance(self.default, str):
            return (self.default,)
        return tuple(self.default) if isinstance(self.default, tuple | list) else ()

    def add_stored(self, stored: RuntimeSettings, *, replaces: bool = False) -> "ModelConfiguration":
        """Return the configuration with settings of the store, which `replaces` providers of the file or does not."""
        addressed = frozenset(name for name, provider in stored.providers.items() if provider.base_url)
        settings = dataclasses.replace(
            self.settings,
            providers={**stored.providers, **self.settings.providers, **(stored.providers if replaces else {})},
            options={**build_options(stored), **self.settings.options},
            own_keys=addressed,
            is_public_only=self.is_public_only,
        )
        chain = stored.model_names or self.names
        allowed = self.allowed
        if allowed is not None:
            others = allowed.difference(self.names) if stored.model_names else allowed
            allowed = others.union(chain, (name for name in stored.models if not is_pattern(name)))
        return ModelConfiguration(
            default=stored.model_names or self.default,
            settings=settings,
            windows={**build_windows(stored, settings), **self.windows},
            allowed=allowed,
            patterns=(*self.patterns, *stored.model_patterns),
            access={**stored.model_access, **self.access},
            is_public_only=self.is_public_only,
        )

    def find_problems(self) -> dict[str, str]:
        """Return why models of the default chain cannot be used, by name."""
        problems: dict[str, str] = {}
        for name in self.names:
            try:
                self.settings.make_model(name)
            except Misconfigured as error:
                problems[name] = describe_model_problem(error)
        return problems

    def find_address(self, entry: EntryId, value: object) -> str:
        """Return the address to which the secrets of a provider's entry are sent."""
        if entry.kind != PROVIDERS_KIND or not is_object(value):
            return ""
        base_url = value.get("base_url")
        return base_url if isinstance(base_url, str) and base_url else self.settings.find_base_url(entry.name)

    def check_change(self, entry: EntryId, before: RuntimeSettings, after: RuntimeSettings) -> None:
        """Raise Invalid for a stored entry that could not be used, and Refused if the default model needs it."""
        changed, current = self.add_stored(after), self.add_stored(before)
        if entry.kind == PROVIDERS_KIND and entry.name in after.providers:
            fields = list(_iter_provider_problems(entry.name, after.providers[entry.name], self.settings))
        elif entry in (EntryId(GENERAL, "model"), EntryId(GENERAL, "models")):
            fields = list(_iter_name_problems(entry.name, after, changed))
        else:
            fields = []
        if fields:
            details = [{"key": key, "message": message} for key, message in fields]
            raise Invalid("; ".join(f"{key} {message}" for key, message in fields), {"fields": details})
        earlier = current.find_problems() if changed.names == current.names else {}
        for name, problem in changed.find_problems().items():
            if earlier.get(name) != problem and entry != EntryId(GENERAL, "model"):
                raise Refused(f"the default model {name!r} could not be used then: {problem}; choose another one first")


def build_options(settings: RuntimeSettings) -> dict[str, Options]:
    return {name: merge_options(chosen, DEFAULT_OPTIONS) for name, chosen in settings.model_options.items()}


def build_windows(settings: RuntimeSettings, models: ModelSettings) -> dict[str, int]:
    """Return how many tokens of input each model of `[model_options]` takes: its context window less its answer."""
    windows: dict[str, int] = {}
    for name, chosen in settings.model_options.items():
        if window := chosen.window or find_context_window(name):
            wire = models.find_preset(parse_model_name(name).provider).wire
            windows[name] = compute_usable_window(name, window, wire, models.options[name])
    return windows


def _iter_provider_problems(name: str, provider: Provider, settings: ModelSettings) -> Iterator[tuple[str, str]]:
    if _PROVIDER_NAME.fullmatch(name) is None:
        yield "name", "must have 1 to 64 letters, digits, '_' and '-', and not be http, https, local or toolyard"
    if not provider.base_url and not settings.find_base_url(name):
        yield (
            "base_url",
            f"must be given: {name[:80]!r} is not one of {', '.join(PROVIDERS)}, or its variable is not set",
        )
    url = urlsplit(provider.base_url)
    parameters = {name for name, _ in parse_qsl(url.query, keep_blank_values=True)}
    if url.username is not None or url.fragment or not parameters <= _SHOWN_PARAMETERS:
        yield "base_url", "must hold no user, password, fragment or parameter: give secrets as api_key or in headers"


def _iter_name_problems(field: str, after: RuntimeSettings, changed: ModelConfiguration) -> Iterator[tuple[str, str]]:
    names = after.model_names if field == "model" else after.models
    for name in names:
        if is_address_or_file(name):
            yield "value", f"must name no address and no file, as {name[:80]!r} does: add a provider with the address"
        elif is_pattern(name):
            provider = parse_model_name(name).provider
            if field == "model":
                yield "value", f"must be the names of models, and {name[:80]!r} is a pattern"
            elif provider not in PROVIDERS and provider not in changed.settings.providers:
                yield "value", f"has {name[:80]!r}, which names no known provider"
        else:
            try:
                changed.settings.make_model(name)
            except Misconfigured as error:
                yield "value", f"has {name[:80]!r}, which cannot be used: {describe_model_problem(error)}"
