"""Wrong uses of the public API. Each wrong line names the rule of the type checker that reports it."""

# An attribute that does not exist is reported once, and not again for its unknown type.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from toolyard import Call, Caller, Context, Executor, Limits, Options, PolicyRequest, RunOptions, Verdict, Yard, tool
from toolyard.events import CallEnded, Event, RunEnded, TextAppended
from toolyard.testing import Scripted, call, say


@tool
def double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


@tool(read_only=True)
async def find(keyword: str, *, context: Context | None = None) -> list[str]:
    """Find materials."""
    return [keyword]


misspelt_rule = tool(read_onyl=True)  # error: reportCallIssue


@tool(approval="sometimes")  # error: reportArgumentType
def wrong_rule() -> None: ...


class NoName(Executor):
    name = 7  # error: reportAssignmentType

    def execute(self, call: Call) -> object:  # error: reportIncompatibleMethodOverride
        return call.argumens  # error: reportAttributeAccessIssue


def wrong_verdict(request: PolicyRequest) -> bool:
    return request.caller.user != "guest"


def wrong_decision(request: PolicyRequest) -> Verdict:
    return Verdict("maybe", "a rule")  # error: reportArgumentType


def decide_by_text(request: PolicyRequest) -> Verdict | None:
    return "deny"  # error: reportReturnType


async def call_tools_directly() -> None:
    double("two")  # error: reportArgumentType
    double()  # error: reportCallIssue
    double(numbr=2)  # error: reportCallIssue
    double(2).upper()  # error: reportAttributeAccessIssue
    await find("flour", "all")  # error: reportCallIssue
    text: str = await find("flour")  # error: reportAssignmentType
    print(text)


def build_yards() -> None:
    model = Scripted([call("double", number=2), say("4")])
    Yard(tools=[1], model=model)  # error: reportArgumentType
    Yard(tools=double, model=model)  # error: reportArgumentType
    Yard(tools=["double"], model=model)  # error: reportArgumentType
    Yard(tools=[double], model=7)  # error: reportArgumentType
    Yard(tool=[double], model=model)  # error: reportCallIssue
    Yard(model=model, rules=[wrong_verdict])  # error: reportArgumentType
    Yard(model=model, limits={"turns_per_request": 5})  # error: reportArgumentType
    Scripted([call(7)])  # error: reportArgumentType
    Scripted(["4"])  # error: reportArgumentType


async def start_runs(yard: Yard) -> None:
    yard.run("hello", modle="ollama:qwen3")  # error: reportCallIssue
    await yard.ask("hello", conversatoin="c1")  # error: reportCallIssue
    await yard.execute("hello", temperature=0.1)  # error: reportCallIssue
    yard.run(7)  # error: reportArgumentType
    yard.run("hello", limits=5)  # error: reportArgumentType
    yard.run("hello", limits=Limits(turns=5))  # error: reportCallIssue
    await yard.ask("hello", caller="ann")  # error: reportArgumentType
    await yard.ask("hello", web_search="google")  # error: reportArgumentType
    await yard.execute("hello", options={"temperature": 0.1})  # error: reportArgumentType
    await yard.execute("hello", options=Options(temprature=0.1))  # error: reportCallIssue
    await yard.execute("hello", ends_on_expiry="yes")  # error: reportArgumentType
    options: RunOptions = {"modle": "ollama:qwen3"}  # error: reportAssignmentType
    await yard.ask("hello", **options)
    await yard.approve("c1", "call_1", remember="always")  # error: reportArgumentType


async def read_results(yard: Yard) -> None:
    result = await yard.execute("hello", caller=Caller(user="ann"))
    print(result.txt)  # error: reportAttributeAccessIssue
    print(result.usage.tokens)  # error: reportAttributeAccessIssue
    print(result.ending == "finished")  # error: reportUnnecessaryComparison
    result.text = ""  # error: reportAttributeAccessIssue
    print((await yard.ask("hello")).text)  # error: reportAttributeAccessIssue
    print((await yard.ask("hello", output_type=list[int])).total)  # error: reportAttributeAccessIssue
    number: str = await yard.ask("hello", output_type=int)  # error: reportAssignmentType
    print(number)


def describe(event: Event) -> str:
    match event:
        case TextAppended():
            return event.content  # error: reportAttributeAccessIssue
        case CallEnded(result=result):
            return result.value  # error: reportAttributeAccessIssue
        case RunEnded(ending="finished"):  # error: reportUnnecessaryComparison
            return ""
        case _:
            return event.text  # error: reportAttributeAccessIssue
