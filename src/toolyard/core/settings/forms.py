"""The forms of settings: which fields an entry has, what each takes, and what it changes. Pure."""

import functools
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, inspect

from toolyard.core.settings.effects import find_effect
from toolyard.core.settings.kinds import (
    Kind,
    describe_type,
    find_struct,
    get_item_type,
    iter_alternatives,
    list_choices,
    list_settings,
    strip_marks,
)
from toolyard.core.settings.runtime import GENERAL, get_runtime_type
from toolyard.core.settings.types import SECRET_MARKS

FieldType = Literal[
    "text",
    "long_text",
    "secret",
    "boolean",
    "integer",
    "number",
    "choice",
    "number_or_choice",
    "list",
    "choices",
    "choice_or_list",
    "map",
    "table",
    "tables",
    "entries",
]
"""What a field takes. `number_or_choice` and `choice_or_list` take one of two; `choices` is a list of words to choose
from, `map` has values by names, `table` has fields, `tables` is a list of tables, and `entries` has tables by names."""


class SettingField(Struct, frozen=True, kw_only=True):
    """A field of a form: what it takes, the words to choose from, and whether it is write-only."""

    name: str
    type: FieldType
    expects: str
    """What it takes, in words."""
    choices: list[str]
    secret: bool
    required: bool
    values: FieldType | None = None
    """What the values of a `map` are."""
    effect: str = ""
    """What the setting changes, in one sentence."""
    fields: list["SettingField"] = []
    """The fields of a table, such as those of `limits`, or of each of several tables."""


class SettingForm(Struct, frozen=True, kw_only=True):
    """The form of a kind of setting. The values of `general` are fields; each other kind has entries with fields."""

    kind: str
    fields: list[SettingField]


@functools.cache
def list_forms() -> tuple[SettingForm, ...]:
    """Return the form of each kind of setting."""
    tables = {setting.name: setting.type for setting in get_runtime_type().fields}
    general = [name for name, kind in tables.items() if not isinstance(kind, inspect.DictType)]
    root = [setting for setting in list_settings(get_runtime_type()) if setting.name in general]
    forms = [SettingForm(kind=GENERAL, fields=[_describe_field(setting, GENERAL) for setting in root])]
    for name, kind in tables.items():
        if isinstance(kind, inspect.DictType) and (table := find_struct(kind.value_type)):
            fields = [_describe_field(setting, name) for setting in list_settings(table)]
            forms.append(SettingForm(kind=name, fields=fields))
    return tuple(forms)


def _describe_field(setting: inspect.Field, kind: str) -> SettingField:
    inner, _ = strip_marks(next(iter_alternatives(setting.type)))
    is_map = isinstance(inner, inspect.DictType)
    values = inner.value_type if is_map else setting.type
    chosen = choose_field_type(setting.type)
    table = find_struct(get_item_type(inner) or values)
    return SettingField(
        name=setting.name,
        type=chosen,
        expects=describe_type(setting.type),
        choices=[choice for choice in list_choices(values) if choice],
        secret="secret" in (chosen, choose_field_type(values)),
        required=setting.required,
        values=choose_field_type(values) if chosen == "map" else None,
        effect=find_effect(kind, setting.name),
        fields=[_describe_field(field, setting.name) for field in list_settings(table)] if table else [],
    )


def choose_field_type(kind: Kind) -> FieldType:
    """Return what a field of this type takes."""
    alternatives = [strip_marks(choice) for choice in iter_alternatives(kind)]
    chosen: set[FieldType] = {_choose_single_type(*alternative) for alternative in alternatives}
    if len(chosen) == 1:
        return chosen.pop()
    if "list" in chosen:
        return "choice_or_list" if "choice" in chosen else "list"
    return "number_or_choice" if "choice" in chosen else "text"


def _choose_single_type(kind: Kind, marks: Mapping[str, object]) -> FieldType:
    match kind:
        case inspect.BoolType():
            return "boolean"
        case inspect.IntType():
            return "integer"
        case inspect.FloatType():
            return "number"
        case inspect.LiteralType():
            return "choice"
        case inspect.StructType():
            return "table"
        case inspect.DictType():
            return "entries" if find_struct(kind.value_type) else "map"
        case inspect.StrType():
            return "secret" if marks.get("is") in SECRET_MARKS else "long_text" if "lines" in marks else "text"
        case _:
            item_type = get_item_type(kind)
            assert item_type is not None, f"no form has an input for {kind}"
            return "tables" if find_struct(item_type) else "choices" if list_choices(item_type) else "list"
