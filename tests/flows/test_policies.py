"""Who may use which tool: asked when tools are listed and again when one is called. What fails, denies."""

import asyncio

import pytest

from support import STAFF, collect_events, get_problem, get_result, open_yard
from toolyard import Caller, Context, Executor, PolicyRequest, Settings, Verdict, Yard, tool
from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call
from toolyard.testing import Scripted, call, say

ADMIN = Caller(user="boss", roles=frozenset({"admin"}))


@tool
def search_materials(keyword: str) -> str:
    """Search raw materials."""
    return keyword


@tool(roles={"admin"})
def create_new_intent(name: str) -> str:
    """For administrators."""
    return name


@tool(divisions={"clothing"})
def try_on(size: int) -> int:
    """For one division."""
    return size


@tool(enabled=False)
def retired_tool() -> None:
    """Switched off."""


TOOLS = [search_materials, create_new_intent, try_on, retired_tool]


def list_offered_to(caller: Caller, settings: Settings | None = None) -> list[str]:
    model = Scripted([say("ok")])

    async def test() -> None:
        async with Yard(tools=TOOLS, model=model) as yard:
            await yard.ask("go", caller=caller, settings=settings or Settings())

    asyncio.run(test())
    return [tool.name for tool in model.requests[0].offer.tools]


@pytest.mark.proves("001.permission-at-list", "001.disabled-skipped")
def test_only_the_tools_a_caller_may_use_are_offered() -> None:
    assert list_offered_to(STAFF) == ["search_materials"]
    assert list_offered_to(ADMIN) == ["search_materials", "create_new_intent"]
    assert list_offered_to(Caller(user="c", division="clothing")) == ["search_materials", "try_on"]
    assert list_offered_to(ADMIN, Settings(tools=frozenset({"create_new_intent"}))) == ["create_new_intent"]


@pytest.mark.proves("001.permission-at-call")
@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("create_new_intent", {"name": "x"}, "it needs one of the roles admin"),
        ("try_on", {"size": 1}, "another division"),
        ("retired_tool", {}, "disabled"),
    ],
)
async def test_a_call_for_a_tool_that_was_not_offered_is_refused_again_at_call_time(
    name: str, arguments: dict[str, object], why: str
) -> None:
    async with open_yard([call(name, **arguments), say("sorry")], TOOLS) as yard:
        call_result = get_result(await collect_events(yard.run("go", caller=STAFF)))
        assert get_problem(call_result) == ("denied", "permission_denied") and why in call_result.content


def broken(question: PolicyRequest) -> Verdict | None:
    raise RuntimeError("no database")


def vague(question: PolicyRequest) -> Verdict | None:
    return "yes"  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("rule", [broken, vague])
async def test_a_rule_that_raises_or_gives_no_verdict_denies(rule: object, caplog: pytest.LogCaptureFixture) -> None:
    async with open_yard([call("search_materials", keyword="x"), say("sorry")], TOOLS, rules=[rule]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("denied", "permission_denied")


async def test_a_rule_sees_the_arguments_at_call_time_and_its_name_is_told() -> None:
    def no_flour(question: PolicyRequest) -> Verdict | None:
        keyword = (question.arguments or {}).get("keyword")
        return Verdict("deny", "no flour today") if keyword == "flour" else None

    script = [step for word in ("flour", "salt") for step in (call("search_materials", keyword=word), say("ok"))]
    async with open_yard(script, TOOLS, rules=[no_flour]) as yard:
        call_result = get_result(await collect_events(yard.run("go")))
        assert get_problem(call_result) == ("denied", "permission_denied") and "no flour today" in call_result.content
        assert get_result(await collect_events(yard.run("go"))).outcome == "ok"


class CreateIntent:
    """An executor class, as seed 001 has them."""

    name = "create_intent"
    description = "Create an intent."

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self.parameters: dict[str, object] = {
            "type": "object",
            "properties": {"intent": {"type": "string"}},
            "required": ["intent"],
        }

    def is_enabled(self) -> bool:
        return self.enabled

    def requires_permission(self) -> bool:
        return True

    def has_permission(self, role: str) -> bool:
        return role == "admin"

    async def execute(self, call: Call, context: Context) -> dict[str, object]:
        return {"created": call.arguments["intent"], "by": context.caller.user}


@pytest.mark.proves("001.executor-interface", "001.executor-requires-permission", "001.executor-execute")
async def test_an_executor_runs_for_a_role_it_permits_and_for_no_other() -> None:
    async with open_yard([call("create_intent", intent="x"), say("ok")] * 2, [CreateIntent]) as yard:
        assert get_result(await collect_events(yard.run("go", caller=ADMIN))).content == '{"created":"x","by":"boss"}'
        assert get_problem(get_result(await collect_events(yard.run("go", caller=STAFF)))) == (
            "denied",
            "permission_denied",
        )


@pytest.mark.proves("001.executor-is-enabled")
async def test_an_executor_is_asked_each_time_whether_it_is_enabled() -> None:
    executor = CreateIntent()
    model = Scripted([say("ok"), say("ok"), say("ok")])
    async with Yard(tools=[executor], model=model) as yard:
        for enabled in (True, False, True):
            executor.enabled = enabled
            await yard.ask("go", caller=ADMIN)
    assert [len(request.offer.tools) for request in model.requests] == [1, 0, 1]
    assert model.requests[0].offer is model.requests[2].offer


class FailingCheckIntent(CreateIntent):
    def has_permission(self, role: str) -> bool:
        raise OSError("directory is down")


async def test_an_executor_whose_check_fails_is_neither_offered_nor_run() -> None:
    async with open_yard([call("create_intent", intent="x"), say("ok")], [FailingCheckIntent()]) as yard:
        call_result = get_result(await collect_events(yard.run("go", caller=ADMIN)))
        assert get_problem(call_result) == ("denied", "permission_denied") and "check failed" in call_result.content


class FindMaterial(Executor):
    name = "find_material"
    description = "Find a material."
    parameters: dict[str, object] = {  # noqa: RUF012 - read, never written
        "type": "object",
        "properties": {"keyword": {"type": "string"}},
        "required": ["keyword"],
    }

    def execute(self, call: Call, context: Context) -> dict[str, object]:
        return {"found": call.arguments["keyword"], "at": context.fields.get("factoryId")}


class DropMaterial(FindMaterial):
    name = "drop_material"
    roles = ("admin",)
    approval = "ask"
    timeout_s = 5
    destructive = True
    examples = ("drop M001",)


@pytest.mark.proves("001.executor-interface", "001.executor-execute", "001.execute-with-context")
async def test_an_executor_defines_what_it_is_and_the_base_class_the_rest() -> None:

    script = [call("find_material", keyword="flour"), say("ok"), call("drop_material", keyword="flour"), say("ok")]
    async with open_yard(script, [FindMaterial, DropMaterial()]) as yard:
        run = yard.run("go", caller=STAFF, context={"factoryId": "F001"})
        assert get_result(await collect_events(run)).content == '{"found":"flour","at":"F001"}'
        assert get_problem(get_result(await collect_events(yard.run("go", caller=STAFF)))) == (
            "denied",
            "permission_denied",
        )
        (plain,) = [tool for tool in yard.service.tools.list_usable(STAFF) if not tool.built_in]
        assert (plain.name, plain.approval) == ("find_material", "never") and not (plain.read_only or plain.own_check)
        (strict,) = [tool for tool in yard.service.tools.list_usable(ADMIN) if tool.name == "drop_material"]
        assert (strict.roles, strict.approval, strict.timeout_s) == ({"admin"}, "ask", 5.0)
        assert strict.destructive and strict.examples == ("drop M001",) and not strict.own_check


async def test_a_rule_of_an_executor_that_is_of_the_wrong_type_is_refused_by_name() -> None:
    class Hasty(FindMaterial):
        timeout_s = "soon"  # pyright: ignore[reportAssignmentType]

    with pytest.raises(Misconfigured, match=r"Hasty.*timeout_s"):
        async with open_yard([], [Hasty]):
            pass


async def test_an_executor_that_lacks_a_part_is_refused_by_name() -> None:
    class Half:
        name = "half"

        def execute(self, call: Call, context: Context) -> None: ...

    with pytest.raises(Misconfigured, match="Half lacks description, parameters, is_enabled"):
        async with open_yard([], [Half()]):  # pyright: ignore[reportArgumentType]
            pass
