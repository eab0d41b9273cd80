"""Tools that an application has already: one model as the parameter, schemas with a dispatcher, failures of its own."""

import threading
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta, Struct
from pydantic import BaseModel, Field, RootModel

from support import STAFF, collect_events, get_problem, get_result, open_yard
from toolyard import Context, FunctionTool, Misconfigured, Result, ToolError, ToolLike, tool, tools_from_openai
from toolyard.testing import call, say


class AddItem(BaseModel):
    """An item for the list."""

    item: Annotated[str, Field(min_length=1, description="What to buy")]
    qty: int = 1
    instead_of: "AddItem | None" = None


class AddItemStruct(Struct):
    """An item for the list."""

    item: Annotated[str, Meta(min_length=1, description="What to buy")]
    qty: int = 1
    instead_of: "AddItemStruct | None" = None


@tool
def add_model(req: AddItem, context: Context) -> str:
    """Add an item.

    Args:
        req: The item.
    """
    assert isinstance(req, AddItem) and context.caller == STAFF
    return f"{req.qty} {req.item}"


@tool
async def add_struct(req: Annotated[AddItemStruct, "any"]) -> str:
    assert isinstance(req, AddItemStruct)
    return f"{req.qty} {req.item}"


BOTH = pytest.mark.parametrize("adding", [add_model, add_struct])


async def run_once(tools: list[ToolLike], name: str, **arguments: object) -> Result:
    async with open_yard([call(name, **arguments), say("ok")], tools) as yard:
        return get_result(await collect_events(yard.run("go", caller=STAFF)))


@BOTH
def test_the_fields_of_the_only_model_are_the_parameters(adding: FunctionTool[..., object]) -> None:
    schema = adding.definition.parameters
    assert schema["type"] == "object" and schema["required"] == ["item"]
    properties = msgspec.convert(schema["properties"], dict[str, dict[str, object]])
    assert list(properties) == ["item", "qty", "instead_of"]
    assert properties["item"] == {"type": "string", "minLength": 1, "description": "What to buy"}
    assert properties["qty"] == {"type": "integer", "default": 1}
    (choice, _) = msgspec.convert(properties["instead_of"]["anyOf"], list[dict[str, str]])
    definitions = msgspec.convert(schema["$defs"], dict[str, dict[str, object]])
    assert choice["$ref"].removeprefix("#/$defs/") in definitions


def test_a_model_describes_the_tool_unless_the_function_does() -> None:
    assert add_model.definition.description == "Add an item."
    assert add_struct.definition.description == "An item for the list."


@BOTH
async def test_the_function_gets_the_model(adding: FunctionTool[..., object]) -> None:
    outcome = await run_once([adding], adding.definition.name, item="milk", qty=2, instead_of={"item": "tea"})
    assert (outcome.outcome, outcome.content) == ("ok", "2 milk")


@BOTH
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"item": ""}, "item"),
        ({"item": "milk", "qty": "two"}, "qty"),
        ({"item": "milk", "instead_of": {"item": 1}}, "instead_of.item"),
        ({"req": {"item": "milk"}}, "item"),
    ],
)
async def test_a_wrong_field_of_the_model_is_named(
    adding: FunctionTool[..., object], arguments: dict[str, object], field: str
) -> None:
    outcome = await run_once([adding], adding.definition.name, **arguments)
    assert get_problem(outcome) == ("error", "validation_error") and field in outcome.content


class Names(RootModel[list[str]]):
    pass


class Pair(Struct, array_like=True):
    first: int
    second: int


class Plain(Struct):
    name: str
    more: dict[str, object] = {}


class Impossible(Struct):
    lock: threading.Lock


def with_two(first: AddItem, second: AddItem) -> None: ...
def with_default(req: AddItem = AddItem(item="tea")) -> None: ...  # noqa: B008
def with_choice(req: AddItem | None) -> None: ...
def with_list(names: Names) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (with_two, ["first", "second"]),
        (with_default, ["req"]),
        (with_choice, ["req"]),
        (with_list, ["names"]),
    ],
)
def test_any_other_parameter_keeps_its_name(function: object, names: list[str]) -> None:
    built = tool(function)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    assert isinstance(built, FunctionTool)
    assert list(msgspec.convert(built.definition.parameters["properties"], dict[str, object])) == names


def test_a_struct_that_is_an_array_is_no_object_of_arguments() -> None:
    def with_pair(pair: Pair) -> None: ...

    with pytest.raises(Misconfigured, match="has no JSON form"):
        tool(with_pair)


def test_a_struct_without_itself_leaves_no_definition_behind() -> None:
    def greet(req: Plain) -> None: ...

    assert tool(greet).definition.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "more": {"type": "object", "additionalProperties": {"description": "Any JSON value"}, "default": {}},
        },
        "required": ["name"],
    }


def test_a_struct_with_a_field_that_has_no_json_form_is_no_parameter() -> None:
    def wait(req: Impossible) -> None: ...

    with pytest.raises(Misconfigured, match="a field's type has no JSON form"):
        tool(wait)


class OutOfStock(Exception):
    error_type = "out_of_stock"

    def __init__(self, message: str, left: int) -> None:
        super().__init__(message)
        self.details = {"left": left}


class Broken(Exception):
    @property
    def error_type(self) -> str:
        raise RuntimeError("no type")

    details = "no mapping"


@pytest.mark.parametrize(
    ("error", "text", "error_type", "details"),
    [
        (OutOfStock("no milk", 0), "no milk", "out_of_stock", {"left": 0}),
        (ToolError("no milk", "not_found", {"left": 0}), "no milk", "not_found", {"left": 0}),
        (Broken("oops"), "Broken: oops", "execution_error", {}),
        (KeyError("milk"), "KeyError: 'milk'", "execution_error", {}),
    ],
)
async def test_an_exceptions_own_type_and_details_reach_the_model(
    error: Exception, text: str, error_type: str, details: dict[str, object]
) -> None:
    @tool(retries=0)
    async def take() -> None:
        """Take milk."""
        raise error

    outcome = await run_once([take], "take")
    assert outcome.error is not None
    assert (outcome.error.error, outcome.error.error_type, outcome.error.details) == (text, error_type, details)


@dataclass
class Report:
    ok: bool
    error: str = "no milk"


class ReportModel(BaseModel):
    ok: bool
    error: str = "no milk"


FAILED = [
    {"ok": False, "error": "no milk"},
    '{"ok": false, "error": "no milk"}',
    Report(ok=False),
    ReportModel(ok=False),
]


@pytest.mark.parametrize("value", FAILED)
async def test_a_result_that_says_not_ok_is_a_failure_where_the_tool_says_so(value: object) -> None:
    @tool(checks_ok=True)
    def take() -> object:
        """Take milk."""
        return value

    outcome = await run_once([take], "take")
    assert get_problem(outcome) == ("error", "execution_error")
    assert outcome.error is not None and outcome.error.error == "no milk"


async def test_a_reported_failure_keeps_its_type_its_details_and_its_other_fields() -> None:
    @tool(checks_ok=True)
    def take() -> object:
        """Take milk."""
        return {"ok": False, "error": "no milk", "error_type": "not_found", "details": {"left": 0}, "shop": "A"}

    outcome = await run_once([take], "take")
    assert outcome.error is not None
    assert (outcome.error.error_type, outcome.error.details) == ("not_found", {"shop": "A", "left": 0})


@pytest.mark.parametrize(
    "value", [{"ok": True}, {"ok": None}, '{"ok": 0}', "{not json", "plain", [False], Report(ok=True), 7]
)
async def test_any_other_result_is_a_success(value: object) -> None:
    @tool(checks_ok=True)
    def take() -> object:
        """Take milk."""
        return value

    assert (await run_once([take], "take")).outcome == "ok"


async def test_without_the_rule_a_result_that_says_not_ok_is_a_result() -> None:
    @tool
    def take() -> object:
        """Take milk."""
        return {"ok": False, "error": "no milk"}

    assert (await run_once([take], "take")).outcome == "ok"


ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
CHAT_SCHEMA = {"type": "function", "function": {"name": "add", "description": "Add an item.", "parameters": ITEM}}
RESPONSES_SCHEMA = {"type": "function", "name": "add", "description": "Add an item.", "parameters": ITEM}


def dispatch(name: str, arguments: dict[str, object]) -> object:
    return {"ok": True, "ran": name, **arguments}


async def dispatch_async(name: str, arguments: dict[str, object], context: Context) -> object:
    return {"ok": True, "ran": name, **arguments, "for": context.caller.user}


def add(item: str) -> object:
    return {"ok": True, "ran": "add", "item": item}


@pytest.mark.parametrize("schema", [CHAT_SCHEMA, RESPONSES_SCHEMA])
@pytest.mark.parametrize("how", [dispatch, dispatch_async, {"add": add}])
async def test_openai_schemas_and_their_dispatcher_are_tools(schema: dict[str, object], how: object) -> None:
    tools = tools_from_openai([schema], how)  # pyright: ignore[reportArgumentType]
    assert [(item.name, item.description, item.parameters) for item in tools] == [("add", "Add an item.", ITEM)]
    outcome = await run_once([*tools], "add", item="milk")
    assert outcome.outcome == "ok" and '"ran":"add","item":"milk"' in outcome.content
    assert (STAFF.user in outcome.content) == (how is dispatch_async)


async def test_arguments_of_an_openai_schema_are_checked_before_the_dispatcher_is_called() -> None:
    outcome = await run_once([*tools_from_openai([CHAT_SCHEMA], dispatch)], "add", item=7)
    assert get_problem(outcome) == ("error", "validation_error")


async def test_a_context_that_the_schema_names_comes_from_the_arguments() -> None:
    def search(query: str, context: str) -> str:
        return f"{query} in {context}"

    text = {"type": "string"}
    schema = {"name": "search", "parameters": {"type": "object", "properties": {"query": text, "context": text}}}
    tools = tools_from_openai([schema], {"search": search})
    outcome = await run_once([*tools], "search", query="milk", context="recipes")
    assert (outcome.outcome, outcome.content) == ("ok", "milk in recipes")


async def test_a_function_beside_a_schema_without_a_context_gets_that_of_the_call() -> None:
    def add_for(item: str, context: Context) -> str:
        return f"{item} for {context.caller.user}"

    outcome = await run_once([*tools_from_openai([CHAT_SCHEMA], {"add": add_for})], "add", item="milk")
    assert (outcome.outcome, outcome.content) == ("ok", f"milk for {STAFF.user}")


@pytest.mark.parametrize("is_mapping", [False, True])
async def test_a_dispatcher_that_changes_its_arguments_leaves_those_of_the_log(is_mapping: bool) -> None:
    schema = {"name": "add", "parameters": {"type": "object", "properties": {"item": {"type": "object"}}}}

    def empty(item: dict[str, object]) -> str:
        return str(item.pop("name"))

    def dispatch_item(name: str, arguments: dict[str, dict[str, object]]) -> str:
        return empty(arguments.pop("item"))

    tools = tools_from_openai([schema], {"add": empty} if is_mapping else dispatch_item)
    async with open_yard([call("add", item={"name": "milk"}), say("ok")], [*tools]) as yard:
        (step,) = (await yard.run("go", caller=STAFF).result()).calls
    assert (step.outcome, step.arguments) == ("ok", {"item": {"name": "milk"}})


async def test_rules_of_a_dispatched_tool_are_its_attributes() -> None:
    def fail(item: str) -> object:
        return {"ok": False, "error": item}

    (adding,) = tools_from_openai([CHAT_SCHEMA], {"add": fail}, checks_ok=True)
    assert (await run_once([adding], "add", item="no milk")).outcome == "error"
    adding.roles = ("admin",)
    assert get_problem(await run_once([adding], "add", item="milk"))[1] == "permission_denied"


@pytest.mark.parametrize(
    ("schemas", "functions", "why"),
    [
        ([CHAT_SCHEMA], {}, "no function runs add"),
        ([], {"add": add}, "no schema describes add"),
        ([{"type": "web_search"}], {}, "not the schema of a function"),
        ([{"type": "function", "function": {"strict": True}}], {}, "not the schema of a function"),
    ],
)
def test_a_schema_and_its_function_belong_together(
    schemas: list[dict[str, object]], functions: dict[str, object], why: str
) -> None:
    with pytest.raises(Misconfigured, match=why):
        tools_from_openai(schemas, functions)  # pyright: ignore[reportArgumentType]
