"""Settings that can be changed while the server runs: in the configuration file, or in the store. Pure.

A setting is set as a whole entry: `providers.openai`, `model_options."openai:gpt-5"`, or a value at the top of the file
such as `model`, whose kind is `general`. The file and the store never share an entry: where both have one of the same
name, the file's is used.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, cast

import msgspec
from msgspec import NODEFAULT, Struct, inspect, structs

from toolyard.core.errors import Invalid, NotFound
from toolyard.core.json_types import is_list, is_object
from toolyard.core.masking import MASK, mask_addresses
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.checks import (
    MAX_PROBLEMS,
    SettingChecker,
    SettingProblem,
    Tree,
    check_characters,
    format_path,
)
from toolyard.core.settings.divisions import DivisionConfig, TenantConfig
from toolyard.core.settings.kinds import (
    Kind,
    find_struct,
    iter_alternatives,
    strip_marks,
)
from toolyard.core.settings.limits import LimitsConfig
from toolyard.core.settings.models.access import ModelAccess
from toolyard.core.settings.models.cards import Provider
from toolyard.core.settings.models.names import is_pattern, is_safe_pattern
from toolyard.core.settings.models.options import Options
from toolyard.core.settings.prices import Price
from toolyard.core.settings.redact_rules import NO_REDACTION, RedactRules
from toolyard.core.settings.tool_rules import ToolRules, TrustRules
from toolyard.core.settings.types import SECRET_MARKS, CountOrZero, LongText, Name
from toolyard.core.settings.web_search import WebSearchConfig

GENERAL = "general"
"""The kind of the values at the top of the file."""
TOOL = "tool"
TENANTS = "tenants"
SERVERS = "servers"
"""The kind of MCP servers, which are no settings but stand in the configuration as well."""
_MAY_BE_EMPTY = frozenset({"web_search"})
"""Values at the top of the file for which an empty table is not the same as none."""


class ModelOptions(Options, frozen=True, kw_only=True):
    """The options of one model, and its context window."""

    window: CountOrZero = 0
    """The size of its context window in tokens; 0 means the size that Toolyard knows for it."""


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """The settings that the store may hold as well as the file."""

    model: Name | tuple[Name, ...] = ""
    """The first model is used, the others are fallbacks; empty if none is configured. See `model_names`."""
    models: tuple[Name, ...] = ()
    """Other models that a request may name, or patterns for their names such as `openai:gpt-4o*`."""
    providers: dict[Name, Provider] = {}
    model_options: dict[Name, ModelOptions] = {}
    """By the model's configured name."""
    model_access: dict[Name, ModelAccess] = {}
    """Who may use which models, by the model's name or a pattern. Each entry that matches must admit the caller."""
    system_prompt: LongText = ""
    limits: LimitsConfig = LimitsConfig()
    trust: TrustRules = TrustRules()
    """How calls are restricted after untrusted content."""
    tool: dict[Name, ToolRules] = {}
    prices: dict[Name, Price] = {}
    """By the model's configured name, or by the name that its provider reports, in place of the published prices."""
    budgets: dict[Name, BudgetRule] = {}
    """What runs may cost, by the names of the budgets."""
    web_search: WebSearchConfig | None = None
    """Without this table, native searches run only where a request asks for them."""
    redact: RedactRules = NO_REDACTION
    """Which secrets are replaced in results."""
    divisions: dict[Name, DivisionConfig] = {}
    tenants: dict[Name, TenantConfig] = {}

    @property
    def model_names(self) -> tuple[str, ...]:
        return self.model if isinstance(self.model, tuple) else (self.model,) if self.model else ()

    @property
    def model_patterns(self) -> tuple[str, ...]:
        return tuple(name for name in self.models if is_pattern(name))

    def iter_problems(self) -> Iterator[SettingProblem]:
        for pattern in self.model_patterns:
            if not is_safe_pattern(pattern):
                yield "models", f"{pattern[:80]!r} must begin with a provider's name, as openai:gpt-4o* does"


class EntryId(NamedTuple):
    """The kind and the name of an entry, such as `providers` and `openai`, or `general` and `model`."""

    kind: str
    name: str

    @property
    def path(self) -> tuple[str, ...]:
        """Return where the entry stands in a configuration."""
        return (self.name,) if self.kind == GENERAL else (self.kind, self.name)

    def __str__(self) -> str:
        return f"{self.kind}.{self.name}"


def parse_entry_id(text: str) -> EntryId:
    kind, _, name = text.partition(".")
    return EntryId(kind, name)


def find_entry_type(entry: EntryId) -> Kind:
    """Return the type of an entry's value. Raise NotFound if there is no such kind of setting."""
    fields = {setting.name: setting.type for setting in get_runtime_type().fields}
    kind = fields.get(entry.name if entry.kind == GENERAL else entry.kind)
    is_table = isinstance(kind, inspect.DictType)
    if kind is None or is_table == (entry.kind == GENERAL):
        raise NotFound(f"there is no setting {format_path(entry)!r} that can be changed while the server runs")
    return kind.value_type if isinstance(kind, inspect.DictType) else kind


def iter_entries(settings: RuntimeSettings) -> Iterator[tuple[EntryId, object]]:
    """Yield the entries that are set, with their values as plain JSON."""
    for setting in get_runtime_type().fields:
        value = _to_plain(getattr(settings, setting.name))
        if isinstance(setting.type, inspect.DictType):
            yield from (
                (EntryId(setting.name, name), inner) for name, inner in (value if is_object(value) else {}).items()
            )
        elif value or (value is not None and setting.name in _MAY_BE_EMPTY):
            yield EntryId(GENERAL, setting.name), value


def _to_plain(value: object) -> object:
    """Return a value as plain JSON. Fields of a struct that have their default are left out."""
    if is_object(value):
        return {name: _to_plain(inner) for name, inner in value.items()}
    if not isinstance(value, Struct):
        return cast(object, msgspec.json.decode(msgspec.json.encode(value)))  # so that tuples become lists
    chosen = [(field, getattr(value, field.name)) for field in structs.fields(value)]
    return {field.name: _to_plain(inner) for field, inner in chosen if inner != _get_default(field)}


def _get_default(field: structs.FieldInfo) -> object:
    """Return the default of a field; NODEFAULT if it has none."""
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def build_tree(entries: Mapping[EntryId, object]) -> Tree:
    """Return the tree of a configuration with these entries."""
    tree: Tree = {}
    for entry, value in entries.items():
        *tables, key = entry.path
        table = tree
        for name in tables:
            inner = table.setdefault(name, {})
            assert is_object(inner)
            table = inner
        table[key] = value
    return tree


def build_settings(entries: Mapping[EntryId, object]) -> RuntimeSettings:
    """Return the settings of entries that `check_entry` has accepted."""
    return msgspec.convert(build_tree(entries), RuntimeSettings)


def check_entry(entry: EntryId, value: object) -> None:
    """Raise Invalid with everything that is wrong with an entry, by the rules of the configuration file."""
    find_entry_type(entry)
    if entry.kind == GENERAL and not value and entry.name not in _MAY_BE_EMPTY:  # the same as none, as in a file
        message = "must not be empty: delete the entry instead"
        raise Invalid(message, {"fields": [{"key": "value", "message": message}]})
    checker = SettingChecker(get_runtime_type(), check_characters)
    checker.check(build_tree({entry: value}))
    if not checker.problems:
        return
    depth = len(entry.path)
    fields = [
        {"key": format_path(path[depth:]) or "value", "message": build_message()}
        for path, build_message in checker.problems[:MAX_PROBLEMS]
    ]
    raise Invalid("; ".join(field["message"] for field in fields), {"fields": fields})


def replace_secrets(value: object, kind: Kind, replace: Callable[[tuple[str, ...], str], str]) -> object:
    """Return the value with each text that its type marks as a secret replaced; an empty text stays.

    `replace` gets the path of the secret within the value, and the secret.
    """
    return _replace_secrets(value, kind, replace, ())


def mask_entry(entry: EntryId, value: object) -> object:
    """Return the value of an entry of the file with masked secrets, also those in its addresses."""
    return _mask_texts(replace_secrets(value, find_entry_type(entry), lambda path, secret: MASK))


def _mask_texts(value: object) -> object:
    if isinstance(value, str):
        return mask_addresses(value, every_parameter=True)
    if is_list(value):
        return [_mask_texts(item) for item in value]
    return {key: _mask_texts(inner) for key, inner in value.items()} if is_object(value) else value


def _replace_secrets(
    value: object, kind: Kind, replace: Callable[[tuple[str, ...], str], str], path: tuple[str, ...]
) -> object:
    chosen, marks = strip_marks(next(iter_alternatives(kind)))
    if isinstance(value, str):
        return replace(path, value) if value and marks.get("is") in SECRET_MARKS else value
    if not is_object(value):
        return value
    if isinstance(chosen, inspect.DictType):
        return {key: _replace_secrets(inner, chosen.value_type, replace, (*path, key)) for key, inner in value.items()}
    table = find_struct(kind)
    types = {setting.name: setting.type for setting in table.fields} if table else {}
    return {
        key: _replace_secrets(inner, types[key], replace, (*path, key)) if key in types else inner
        for key, inner in value.items()
    }


class FixedSetting(Struct, frozen=True, kw_only=True):
    """A setting that needs a restart: its value as TOML with masked secrets, and where it is set."""

    name: str
    value: str
    location: str
    note: str = "needs a restart"


@functools.cache
def get_runtime_type() -> inspect.StructType:
    kind = inspect.type_info(RuntimeSettings)
    assert isinstance(kind, inspect.StructType)
    return kind
