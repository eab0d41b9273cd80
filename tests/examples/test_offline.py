"""The first minute with the shipped examples and no language model: what their templates say works."""

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from examples.loading import tools_of
from support import TEST_TIMEOUT_S, collect_events, join_text, list_asked_calls
from toolyard import Caller, ToolLike, Yard
from toolyard.cli.commands.chat import build_grocery_tools
from toolyard.core.conversation.events import Event
from toolyard.core.tools.templates import fill_examples, split_template
from toolyard.venues.function import as_tool

OFFLINE = "toolyard:offline"
STAFF = Caller(user="li", roles=frozenset({"warehouse_staff"}), locale="zh")
TOMORROW = (date.today() + timedelta(days=1)).isoformat()


async def say(yard: Yard, message: str, caller: Caller = STAFF) -> tuple[str, list[Event]]:
    """Send a message in the one conversation of a test, and follow its run until it rests."""
    events: list[Event] = []
    async for event in yard.run(message, caller=caller, conversation="conversation_1"):
        events.append(event)
        if list_asked_calls(events):
            break
    return join_text(events), events


def talk(tools: Sequence[ToolLike], lines: Sequence[tuple[str, str]], caller: Caller = STAFF) -> None:
    async def test() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_S), Yard(tools=tools, model=OFFLINE) as yard:
            for message, answer in lines:
                words, _ = await say(yard, message, caller)
                assert answer in words, (message, words)

    asyncio.run(test())


def test_a_household_is_looked_after() -> None:
    talk(
        tools_of("household"),
        [
            ("Add milk to groceries", "Added 1 milk to the grocery list."),
            ("add bread, eggs and butter to groceries", "Added 1 butter to the grocery list."),
            ("please add 3 lemons to groceries, thanks!", "Added 3 lemons to the grocery list."),
            ("what is on the grocery list?", "lemons"),
            ("we need help", "Shall I do this?"),
            ("no", "nothing was done"),
            ("I bought milk", "Shall I do this?"),
            ("yes", "Marked milk as Bought."),
            ("which groceries are in cart?", "No entry matched status In cart."),
            ("remind me to water the plants tomorrow", "Shall I do this?"),
            ("yes", f"Added the task “water the plants”, due {TOMORROW}."),
            ("which tasks are open?", "water the plants"),
            ("schedule dentist tomorrow at 3pm", f"Added “dentist” to the calendar: {TOMORROW} 15:00."),
            ("what is in the calendar?", "dentist"),
            ("how much did we spend this month?", "Rent"),
            ("how much did we spend on sailing?", "No entry matched category sailing."),
            ("把牛奶加到购物清单", "已将牛奶加入购物清单，数量 1。"),
            ("购物清单上有什么", "牛奶"),
        ],
    )


def test_a_warehouse_answers_in_chinese() -> None:
    talk(
        tools_of("warehouse"),
        [
            ("帮我查找面粉原料", "高筋面粉"),
            ("有没有白砂糖？", "白砂糖"),
            ("统计一下库存", "面粉"),
            ("生成面粉库存报表", "# 面粉库存报表"),
            ("search materials for 黄油", "黄油"),
        ],
    )


async def test_somebody_without_a_role_is_not_offered_what_needs_it() -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard(tools=tools_of("warehouse"), model=OFFLINE) as yard:
        _, events = await say(yard, "新建意图退货")
        assert list_asked_calls(events) == []
        admin = Caller(user="wang", roles=frozenset({"admin"}))
        run = yard.run("create a new intent called returns", caller=admin)
        assert "returns" in join_text(await collect_events(run))


def test_without_a_tool_it_says_so() -> None:
    talk([], [(message, "There is no tool here") for message in ("add milk to groceries", "hello", "")])


def test_a_greeting_is_answered_with_examples() -> None:
    talk(tools_of("household"), [("hello!", "“add milk to groceries”"), ("你好", "“把牛奶加到购物清单”")])


def test_the_grocery_list_of_the_terminal_is_kept() -> None:
    talk(
        build_grocery_tools(),
        [
            ("add oat milk to groceries", "Added 1 oat milk to the grocery list."),
            ("we need 2 eggs", "Shall I do this?"),
            ("yes", "Added 2 eggs to the grocery list."),
            ("show my groceries", "2 × eggs"),
        ],
    )


@pytest.mark.parametrize("example", ["household", "warehouse"])
def test_every_tool_has_templates_in_both_languages_and_none_is_shown_with_a_raw_slot(example: str) -> None:
    for tool in (as_tool(function).definition for function in tools_of(example)):
        assert any(each.isascii() for each in tool.examples), tool.name
        assert any(not each.isascii() for each in tool.examples), tool.name
        assert any(slot for each in tool.examples for _, slot in split_template(each)) or not tool.parameters.get(
            "required"
        )
        assert not any("{" in shown for shown in fill_examples(tool)), tool.name
