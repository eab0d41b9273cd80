"""Right uses of the public API: a strict type check of this file finds nothing."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack, assert_never, assert_type

from toolyard import (
    Budget,
    Call,
    Caller,
    Context,
    Executor,
    Limits,
    Misconfigured,
    Options,
    PolicyRequest,
    Rule,
    Run,
    RunOptions,
    RunResult,
    ServerSpec,
    Settings,
    SettingsChange,
    Tool,
    ToolError,
    ToolLike,
    ToolyardError,
    Verdict,
    Yard,
    tool,
)
from toolyard.events import (
    CallEnded,
    CallJudged,
    CallProgressed,
    Durable,
    Ending,
    Entry,
    Event,
    Item,
    ModelText,
    RunEnded,
    TextAppended,
    TurnEnded,
    Usage,
    event_name,
)
from toolyard.testing import Scripted, call, fail, say, together
from toolyard.tool_index import ToolIndex


@tool
def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


@tool(roles={"staff"}, read_only=True, timeout_s=5, examples=["find flour"])
async def find(keyword: str, limit: int = 10, *, context: Context | None = None) -> list[str]:
    """Find materials.

    Args:
        keyword: What to look for.
        limit: How many to return.
    """
    if context is not None:
        context.progress(0.5, message=keyword)
    if limit < 1:
        raise ToolError("no limit", "wrong_limit", {"limit": limit})
    return [keyword]


def plain(text: str) -> str:
    """Return the text."""
    return text


class CreateOrder(Executor):
    name = "create_intent"
    parameters = {"type": "object", "properties": {"title": {"type": "string"}}}
    roles = ("admin",)

    def execute(self, call: Call, context: Context) -> object:
        return {"created": call.arguments["title"], "by": context.caller.user}


class OwnExecutor:
    """An executor without the base class."""

    name = "own"
    description = "Do it."
    parameters = {"type": "object"}

    def is_enabled(self) -> bool:
        return True

    def requires_permission(self) -> bool:
        return False

    def has_permission(self, role: str) -> bool:
        return role == "admin"

    async def execute(self, call: Call, context: Context) -> str:
        return call.tool


@dataclass
class Order:
    product: str
    amount: int


TOOLS: Sequence[ToolLike] = [double, find, plain, CreateOrder, CreateOrder(), OwnExecutor, OwnExecutor()]


def guests_do_not_delete(request: PolicyRequest) -> Verdict | None:
    if request.tool.destructive and request.caller.user == "guest":
        return Verdict("deny", "guests do not delete")
    return None


RULES: list[Rule] = [guests_do_not_delete]


async def call_tools_directly() -> None:
    assert_type(double(2), int)
    assert_type(await find("flour", limit=3), list[str])
    assert_type(find.definition, Tool)


def describe(event: Event) -> str:
    match event:
        case TextAppended(text=text):
            return text
        case CallJudged(verdict="ask", call_id=call_id):
            return call_id
        case CallEnded(result=result):
            return result.content if result.error is None else result.error.error_type
        case TurnEnded(items=items, usage=usage):
            return describe_items(items) + str(usage.total)
        case CallProgressed(progress=progress):
            return str(progress)
        case RunEnded(ending=ending):
            return describe_ending(ending)
        case _:
            return event_name(event)


def describe_items(items: tuple[Item, ...]) -> str:
    return "".join(item.text for item in items if isinstance(item, ModelText))


def describe_ending(ending: Ending) -> str:
    match ending:
        case "done" | "limit":
            return "it is over"
        case "cancelled" | "failed":
            return "it was cut short"
        case _:
            assert_never(ending)


async def ask_as_staff(yard: Yard, message: str, **options: Unpack[RunOptions]) -> str:
    """A wrapper of the caller's own keeps the names and types of the options."""
    options["caller"] = Caller(user="ann", roles=frozenset({"staff"}))
    return await yard.ask(message, **options)


async def main() -> None:
    model = Scripted([together(say("wait"), call("double", number=2)), fail("busy", "unavailable"), say("4")])
    yard = Yard(
        tools=TOOLS,
        model=model,
        rules=RULES,
        limits=Limits(turns_per_request=5),
        budget=Budget(tools=10),
        servers={"time": ServerSpec(command="uvx", args=("mcp-server-time",))},
    )
    async with yard:
        assert_type(await yard.ask("How much?", limits=Limits(run_seconds=5), web_search="off"), str)
        await ask_as_staff(yard, "How much?", context={"factory": "F1"})
        result = await yard.execute("How much?", options=Options(temperature=0.1), ends_on_expiry=True)
        assert_type(result, RunResult)
        assert_type(result.text, str)
        assert_type(result.usage, Usage)
        assert_type(result.ending, Ending)
        assert_type(result.output, object)

        assert_type(await yard.ask("Order milk", output_type=Order), Order)
        assert_type((await yard.execute("Count", output_type=list[int], model="ollama:qwen3")).output, list[int])
        assert_type(yard.run("Order milk", output_type=Order), Run[Order])

        run = yard.run("Delete it", conversation="c1", settings=Settings(title="Orders"), interrupt=True)
        assert_type(run, Run)
        async for event in run:
            assert_type(event, Event)
            print(describe(event))
        async for published in run.stream():
            if isinstance(published, Entry):
                assert_type(published.event, Durable)
        await yard.change(run.conversation, SettingsChange(title="Sold"))
        for item in await yard.history(run.conversation):
            print(item.id)
    index = ToolIndex()
    index.put(Tool(name="cancel_booking"))
    print([match.tool.name for match in index.search("cancel")])


try:
    asyncio.run(main())
except Misconfigured as error:
    print(error)
except ToolyardError as error:
    print(error)
