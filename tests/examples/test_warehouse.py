"""The warehouse example: seed 001 from the first word to the last, on its own tools and its own configuration."""

import json
from pathlib import Path

import pytest

from examples.loading import read_configuration, tools_of
from support import (
    collect_events,
    find_history_faults,
    get_ending,
    get_problem,
    get_result,
    get_results,
    join_text,
    open_yard,
)
from toolyard import Caller, Result, Yard
from toolyard.core.items import Call, Item
from toolyard.core.ports import ModelRequest
from toolyard.testing import Script, Scripted, Turn, call, say, together
from toolyard.venues.function import as_tool
from wire.strict_chat import AssistantMessage, StrictChat, SystemMessage, ToolMessage, UserMessage, asks, says

STAFF = Caller(user="u17", roles=frozenset({"warehouse_staff"}), locale="zh-CN")
ADMIN = Caller(user="boss", roles=frozenset({"admin"}), locale="zh-CN")
QUESTION = "帮我查找面粉原料"
ANSWER = "我找到了2种面粉：\n1. 高筋面粉 - 库存100kg\n2. 低筋面粉 - 库存50kg"
FOUND_MATERIALS = {
    "success": True,
    "results": [
        {"id": "M001", "name": "高筋面粉", "quantity": 100, "unit": "kg"},
        {"id": "M002", "name": "低筋面粉", "quantity": 50, "unit": "kg"},
    ],
}
FOUR = ["search_materials", "get_inventory_stats", "format_report", "create_new_intent"]
CONFIGURED = read_configuration("warehouse")


async def ask(script: Script, caller: Caller = STAFF) -> tuple[str, list[Item], list[Result]]:
    """The answer to the seed's question, the history, and the results."""
    options = {"limits": CONFIGURED.limits, "system_prompt": CONFIGURED.system_prompt}
    async with open_yard(script, tools_of("warehouse"), **options) as yard:
        run = yard.run(QUESTION, caller=caller)
        events = await collect_events(run)
        end = get_ending(events)
        assert not await find_history_faults(yard, run.conversation)
        history = list(await yard.history(run.conversation))
        return end.message.text if end.message else join_text(events), history, get_results(events)


def answer_from_result(request: ModelRequest) -> Turn:
    """A model that answers from what the tool returned."""
    last = request.history[-1]
    if not isinstance(last, Result):
        return call("search_materials", keyword="面粉")
    materials = json.loads(last.content)["results"]
    lines = [
        f"\n{n}. {material['name']} - 库存{material['quantity']}{material['unit']}"
        for n, material in enumerate(materials, 1)
    ]
    return say(f"我找到了{len(materials)}种面粉：", *lines)


@pytest.mark.proves("001.answer-from-results", "001.answer-ends-run", "001.executor-found", "001.result-is-json")
async def test_flour_is_searched_for_and_the_answer_is_made_from_what_was_found() -> None:
    answer, history, (result,) = await ask(answer_from_result)
    assert answer == ANSWER
    assert json.loads(result.content) == FOUND_MATERIALS
    assert [type(item).__name__ for item in history] == ["UserMessage", "Call", "Result", "ModelText"]


@pytest.mark.proves("001.string-to-string")
async def test_for_a_librarys_user_it_is_a_text_in_and_a_text_out() -> None:
    async with open_yard(answer_from_result, tools_of("warehouse")) as yard:
        assert await yard.ask(QUESTION, caller=STAFF) == ANSWER


@pytest.mark.proves(
    "001.dashscope",
    "001.request-model",
    "001.request-tools",
    "001.request-tool-choice",
    "001.history-initialised",
    "001.any-script",
    "001.calls-parsed",
    "001.calls-detected",
    "001.arguments-parsed",
    "001.call-in-history",
    "001.result-added-to-history",
    "001.second-round-call",
    "001.role-system",
    "001.role-user",
    "001.role-assistant",
    "001.role-tool",
)
async def test_the_seeds_requests_go_to_qwen_plus_over_a_real_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    qwen = StrictChat(asks(("search_materials", '{"keyword": "面粉"}')), says("我找到了", "2种面粉。"))

    async def test() -> str:
        async with qwen.serving() as base_url:
            monkeypatch.setenv("DASHSCOPE_API_KEY", "sk-test")
            monkeypatch.setenv("DASHSCOPE_BASE_URL", base_url)
            tools, prompt = tools_of("warehouse"), CONFIGURED.system_prompt
            async with Yard(tools=tools, model="dashscope:qwen-plus", system_prompt=prompt) as yard:
                return await yard.ask(QUESTION, caller=STAFF)

    assert (await test()) == "我找到了2种面粉。"
    assert qwen.refusals == []
    first, second = qwen.requests
    assert (first.model, first.tool_choice) == ("qwen-plus", "auto")
    offered = {tool.function.name: tool.function for tool in first.tools or ()}
    assert list(offered) == ["search_materials", "get_inventory_stats", "format_report"]
    assert offered["search_materials"].description == "搜索原料信息"
    assert offered["search_materials"].parameters["required"] == ["keyword"]
    assert first.messages == [SystemMessage(CONFIGURED.system_prompt), UserMessage(QUESTION)]
    assert second.messages[:2] == first.messages
    _, _, calling, answered = second.messages
    assert isinstance(calling, AssistantMessage) and isinstance(answered, ToolMessage)
    assert calling.content is None and calling.tool_calls is not None
    assert calling.tool_calls[0].id == answered.tool_call_id
    assert json.loads(calling.tool_calls[0].function.arguments) == {"keyword": "面粉"}
    assert json.loads(answered.content) == FOUND_MATERIALS


@pytest.mark.proves("001.many-iterations")
async def test_search_statistics_and_report_follow_each_other_before_the_answer() -> None:
    script = [
        call("search_materials", keyword="面粉"),
        call("get_inventory_stats", category="面粉"),
        call("format_report", title="面粉库存", keyword="面粉"),
        say("报表已生成。"),
    ]
    answer, _, (_, stats, report) = await ask(script)
    assert answer == "报表已生成。"
    assert json.loads(stats.content) == {"success": True, "categories": {"面粉": {"kg": 150}}}
    assert "| M002 | 低筋面粉 | 50kg |" in json.loads(report.content)["report"]


@pytest.mark.proves("001.warehouse-tools")
async def test_each_of_the_four_tools_answers_with_success_and_what_it_found() -> None:
    assert [as_tool(thing).definition.name for thing in tools_of("warehouse")] == FOUR

    calls = [
        ("search_materials", {"keyword": "面粉"}),
        ("search_materials", {"keyword": "钢材"}),
        ("get_inventory_stats", {"category": "糖"}),
        ("format_report", {"title": "糖", "keyword": "糖"}),
        ("create_new_intent", {"name": "退货"}),
    ]
    async with open_yard([], tools_of("warehouse")) as yard:
        call_results = [
            get_result(await collect_events(yard.call(name, arguments, caller=ADMIN))) for name, arguments in calls
        ]
    assert {result.outcome for result in call_results} == {"ok"}
    report = "# 糖\n\n| 编号 | 名称 | 库存 |\n|---|---|---|\n| M003 | 白砂糖 | 80kg |\n| M004 | 红糖 | 20kg |"
    assert [json.loads(result.content) for result in call_results] == [
        FOUND_MATERIALS,
        {"success": True, "results": []},
        {"success": True, "categories": {"糖": {"kg": 100}}},
        {"success": True, "report": report},
        {"success": True, "name": "退货", "created_by": "boss"},
    ]


@pytest.mark.proves("001.all-calls-extracted")
async def test_several_calls_of_one_reply_are_all_run_and_answered_in_the_models_order() -> None:
    words = ["糖", "M005", "面粉", "没有的东西"]
    answer, history, call_results = await ask(
        [together(*(call("search_materials", keyword=word) for word in words)), say("好")]
    )
    assert answer == "好" and len(call_results) == 4
    assert [item.arguments["keyword"] for item in history if isinstance(item, Call)] == words
    names = [
        [result["name"] for result in json.loads(item.content)["results"]]
        for item in history
        if isinstance(item, Result)
    ]
    assert names == [["白砂糖", "红糖"], ["无盐黄油"], ["高筋面粉", "低筋面粉"], []]


async def test_after_five_iterations_the_run_is_stopped_with_the_seeds_words() -> None:
    answer, _, call_results = await ask([call("search_materials", keyword="面粉")] * 5)
    assert answer == "抱歉，处理超时，请简化您的请求或重试。"
    assert len(call_results) == CONFIGURED.limits.turns_per_request == 5


@pytest.mark.proves("001.available-tools-built", "001.executor-permitted", "001.executor-not-permitted")
async def test_a_new_intent_is_offered_to_administrators_only() -> None:
    async def offered_to(caller: Caller) -> list[str]:
        model = Scripted([say("好")])
        async with Yard(tools=tools_of("warehouse"), model=model) as yard:
            await yard.ask("你好", caller=caller)
        return [tool.name for tool in model.requests[0].offer.tools]

    everybodys = ["search_materials", "get_inventory_stats", "format_report"]
    assert await offered_to(STAFF) == await offered_to(Caller(user="guest")) == everybodys
    assert await offered_to(ADMIN) == [*everybodys, "create_new_intent"]


@pytest.mark.proves("001.execute-with-context")
async def test_a_new_intent_is_created_for_an_administrator_and_denied_to_staff() -> None:
    script = [call("create_new_intent", name="退货", description="处理退货"), say("好")]
    _, _, (created,) = await ask(script, ADMIN)
    assert json.loads(created.content) == {"success": True, "name": "退货", "created_by": "boss"}
    _, _, (again,) = await ask(script, ADMIN)
    assert get_problem(again) == ("error", "conflict") and "已经存在" in again.content
    _, _, (denied,) = await ask(script, STAFF)
    assert get_problem(denied) == ("denied", "permission_denied")


@pytest.mark.proves("001.exception-caught", "001.error-in-history", "001.model-explains-error")
async def test_a_database_that_cannot_be_reached_is_told_to_the_model_which_explains_it(catalogue: Path) -> None:
    catalogue.mkdir(parents=True)

    def apologise(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if not isinstance(last, Result):
            return call("search_materials", keyword="面粉")
        return say(f"抱歉，查询原料时出现错误：{json.loads(last.content)['error']}。请稍后再试。")

    answer, history, (failed,) = await ask(apologise)
    assert answer == "抱歉，查询原料时出现错误：数据库连接失败。请稍后再试。"
    assert get_problem(failed) == ("error", "unavailable")
    failed_call, call_result = history[1:3]
    assert (
        isinstance(call_result, Result) and call_result.call_id == failed_call.id and call_result.error == failed.error
    )


async def test_a_category_that_is_not_there_names_those_that_are() -> None:
    async with open_yard([], tools_of("warehouse")) as yard:
        call_result = get_result(await collect_events(yard.call("get_inventory_stats", {"category": "钢材"})))
        assert get_problem(call_result) == ("error", "not_found") and "面粉" in call_result.content
