"""The shipped examples work without a model being configured: the offline planner answers and calls what it may."""

import asyncio
from datetime import date

from examples.loading import tools_of
from support import PATIENCE_S, events_of, text, until
from toolyard import Caller, Yard
from toolyard.core.events import RunSuspended
from toolyard.demo import grocery_tools

THIS_MONTH = date.today().isoformat()[:7]
STAFF = Caller(user="li", roles=frozenset({"warehouse_staff"}), locale="zh")


def test_a_household_is_looked_after() -> None:
    heard = [
        ("Add milk to groceries", "I've added milk to the grocery list."),
        ("please add 3 lemons", "I've added lemons to the grocery list (qty 3)."),
        ("I bought milk.", "milk is now “Bought”."),
        ("We bought bread", "That did not work for “bread”: there is no grocery item 'bread'"),
        ("add task call the plumber", "I've created call the plumber"),
        ("I have called the plumber!", "call the plumber is now “Done”."),
        ("How much did we spend?", f"Here is what I found:\n- month: {THIS_MONTH}\n- by category: Rent 950"),
        ("add to groceries", "What should I add?"),
        ("show groceries", "Here is what I found:\n- total: 1\n- lemons"),
        ("", "I can't do that: I'm Toolyard's offline planner, not a language model"),
    ]

    async def test() -> None:
        async with asyncio.timeout(PATIENCE_S), Yard(tools=tools_of("household"), model=OFFLINE) as yard:
            for message, answer in heard:
                assert (await yard.ask(message)).startswith(answer), message
            run = yard.run("turn on the kitchen light")
            waiting, _ = await until(run, RunSuspended)
            await yard.approve(run.conversation, waiting.waiting_for[0])
            assert "Nothing was switched" in text(await events_of(run))

    asyncio.run(test())


def test_a_warehouse_answers_in_chinese() -> None:
    async def test() -> None:
        async with asyncio.timeout(PATIENCE_S), Yard(tools=tools_of("warehouse")) as yard:
            found = await yard.ask("帮我查找面粉原料", caller=STAFF)
            assert "高筋面粉" in found and "100" in found and "低筋面粉" in found
            assert "不是语言模型" in await yard.ask("新建一个名为“退货处理”的意图", caller=STAFF)
            assert "退货处理" in await yard.ask("新建一个名为“退货处理”的意图")

    asyncio.run(test())


def test_only_what_is_offered_is_called() -> None:
    async def test() -> None:
        async with asyncio.timeout(PATIENCE_S), Yard() as yard:
            for message in ("add milk to groceries", "I bought milk", "turn on the light", "add", "show groceries"):
                assert "There are no tools here" in await yard.ask(message)

    asyncio.run(test())


def test_the_grocery_list_of_the_terminal_is_kept() -> None:
    async def test() -> None:
        async with asyncio.timeout(PATIENCE_S), Yard(tools=grocery_tools()) as yard:
            assert await yard.ask("add 2 oat milk to groceries") == "I've added oat milk to the grocery list (qty 2)."
            assert await yard.ask("what do we need?") != ""
            assert await yard.ask("show my groceries") == "2 × oat milk"

    asyncio.run(test())
