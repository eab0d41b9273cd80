"""The scripted demo model: it understands a few sentences and calls only what it is offered."""

import asyncio
from datetime import date

from examples.loading import tools_of
from support import PATIENCE_S, asked, events_of, in_yard, text, until
from toolyard import Scripted, Yard
from toolyard.core.events import RunSuspended
from toolyard.demo import demo_script, grocery_tools

THIS_MONTH = date.today().isoformat()[:7]


def test_the_scripted_demo_holds_a_little_conversation_with_the_household() -> None:
    heard = [
        ("Add milk to groceries", "I've added milk to your grocery list."),
        ("please add 3 lemons", "I've added lemons to your grocery list."),
        ("I bought milk.", "I've marked milk as Bought."),
        ("We bought bread", "That did not work: there is no grocery item 'bread'"),
        ("add task call the plumber", 'I\'ve put "call the plumber" on the list of tasks.'),
        ("I finished call the plumber!", 'I\'ve marked "call the plumber" as Done.'),
        ("How much did we spend?", f"In {THIS_MONTH} you have spent 1207.45."),
        ("add to groceries", "What should I add?"),
        ("show groceries", "This is a scripted demo"),
        ("what do we need?", "This is a scripted demo"),
        ("", "This is a scripted demo"),
    ]

    async def test(yard: Yard) -> None:
        for message, answer in heard:
            assert (await yard.ask(message)).startswith(answer)
        run = yard.run("turn on the kitchen light")
        waiting, _ = await until(run, RunSuspended)
        await yard.approve(run.conversation, waiting.waiting_for[0])
        events = await events_of(run)
        assert asked(events) and "Nothing was switched" in text(events)

    in_yard(test, demo_script, tools_of("household"))


def test_the_scripted_demo_calls_only_what_is_offered() -> None:
    async def test() -> None:
        async with asyncio.timeout(PATIENCE_S), Yard(tools=[], model=Scripted(demo_script)) as yard:
            for message in ("add milk to groceries", "I bought milk", "turn on the light", "add", "show groceries"):
                assert (await yard.ask(message)).startswith("This is a scripted demo")

    asyncio.run(test())


def test_the_scripted_demo_keeps_the_grocery_list_of_the_terminal() -> None:
    async def test(yard: Yard) -> None:
        assert await yard.ask("add 2 oat milk to groceries") == "I've added oat milk to your grocery list."
        assert await yard.ask("what do we need?") == 'On your list: ["2 × oat milk"]'

    in_yard(test, demo_script, grocery_tools())
