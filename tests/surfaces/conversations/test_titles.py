"""Titles that a model writes after the first answer of a conversation that asks for one."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from surfaces.api_client import ApiClient, build_yard, connect_api_client, open_api_client
from toolyard import Yard, tool
from toolyard.core.conversation.events import ConversationChanged, Entry, ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.budgets import BudgetRule
from toolyard.core.settings.prices import Price
from toolyard.core.store import UsageQuery
from toolyard.engine.service.titles import TITLE_PROMPT, clean_title
from toolyard.testing import Scripted, Turn, fail, say


@tool
def weigh(what: str) -> str:
    """Weigh something."""
    return f"{what}: 2 kg"


def is_for_title(request: ModelRequest) -> bool:
    return request.system.endswith(TITLE_PROMPT)


def answer_with_title(title: Turn) -> Scripted:
    return Scripted(lambda request: title if is_for_title(request) else say("Half a cup."))


async def read_title(http: ApiClient, path: str) -> str:
    """Return the title once no model is to write it any more."""
    conversation = (await http.get(path))["conversation"]
    if conversation["auto_title"]:
        await asyncio.sleep(0.01)
        return await read_title(http, path)
    return conversation["title"]


async def test_the_model_writes_the_title_after_the_first_answer_without_tools() -> None:
    model = answer_with_title(say('"Flour for\tone loaf."\nbecause you asked'))
    async with open_api_client(model, tools=[weigh], system_prompt="Be brief.") as http:
        path = await http.create_conversation("how much flour do I", auto_title=True)
        assert (await http.get(path))["conversation"]["title"] == "how much flour do I"
        await http.post(f"{path}/chat", {"content": "how much flour do I need?"})
        assert await read_title(http, path) == "Flour for one loaf"
        await http.post(f"{path}/chat", {"content": "and water?"})
        assert len((await http.get("/conversations"))["conversations"]) == 1
    answer, title, second = model.requests
    assert answer.offer.tools, "the tool is there, only not for the title"
    assert (title.offer.tools, is_for_title(title)) == ((), True)
    (quoted,) = title.history
    assert isinstance(quoted, UserMessage)
    assert quoted.text == "User:\nhow much flour do I need?\n\nAssistant:\nHalf a cup."
    assert not is_for_title(second)
    assert "one loaf" not in second.system + "".join(map(str, second.history)), "a title reaches no prompt"


async def test_only_a_conversation_that_asks_for_it_gets_a_title_of_the_model() -> None:
    model = answer_with_title(say("Another"))
    async with open_api_client(model) as http:
        path = await http.create_conversation("Mine")
        await http.post(f"{path}/chat", {"content": "hello"})
        asking = await http.create_conversation("Yours", auto_title=True)
        await http.post(f"{asking}/chat", {"content": "hello"})
        assert await read_title(http, asking) == "Another"
        assert (await http.get(path))["conversation"]["title"] == "Mine"
    assert len(model.requests) == 3


async def test_a_title_that_a_person_sets_is_never_replaced() -> None:
    asked, written = asyncio.Event(), asyncio.Event()

    class SlowTitle:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            if is_for_title(request):
                asked.set()
                await written.wait()
            async for event in Scripted([say("Late")]).stream(request):
                yield event

        async def close(self) -> None:
            pass

    yard = build_yard(SlowTitle())
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        path = await http.create_conversation("First words", auto_title=True)
        await http.post(f"{path}/chat", {"content": "hello"})
        await asked.wait()
        assert (await http.put(path, {"title": "My own"}))["conversation"]["auto_title"] is False
        before = len(await list_changes(yard, path))
        written.set()
        while len(await list_changes(yard, path)) == before:  # noqa: ASYNC110 - no stream tells of settings
            await asyncio.sleep(0.01)
        assert (await http.get(path))["conversation"]["title"] == "My own"


async def list_changes(yard: Yard, path: str) -> list[Entry]:
    entries = await yard.service.conversations.read_entries(path.rpartition("/")[2])
    return [entry for entry in entries if isinstance(entry.event, ConversationChanged)]


@pytest.mark.parametrize("title", [fail("no"), say("  \n "), Turn(text=("Cut o",), finish="length")])
async def test_a_failure_leaves_the_first_words_and_is_not_repeated(title: Turn) -> None:
    model = answer_with_title(title)
    async with open_api_client(model) as http:
        path = await http.create_conversation("First words", auto_title=True)
        await http.post(f"{path}/chat", {"content": "hello"})
        assert await read_title(http, path) == "First words"
        await http.post(f"{path}/chat", {"content": "again"})
    assert [is_for_title(request) for request in model.requests] == [False, True, False]


async def test_a_first_run_that_fails_leaves_the_title_to_the_next_one() -> None:
    turns = [fail("no"), say("Hello."), say("A greeting")]
    async with open_api_client(Scripted(turns)) as http:
        path = await http.create_conversation("hi", auto_title=True)
        await http.send_request("POST", f"{path}/chat", {"content": "hi"})
        await http.post(f"{path}/chat", {"content": "hi again"})
        assert await read_title(http, path) == "A greeting"


async def test_titles_count_to_budgets_and_are_not_written_beyond_them() -> None:
    model = answer_with_title(say("Costly"))
    price = {"given": Price(input=0.0, output=1.0)}
    budgets = {"all": BudgetRule(amount=0.000_5, window="total")}
    yard = build_yard(model, prices=price, budgets=budgets, reserve_output_tokens=100)
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        path = await http.create_conversation("First words", auto_title=True)
        await http.post(f"{path}/chat", {"content": "hello"})
        assert await read_title(http, path) == "First words"
    assert not any(map(is_for_title, model.requests))


async def test_a_configured_model_writes_titles_and_is_what_the_usage_names() -> None:
    cheap, answering = Scripted([say("Cheap title")]), Scripted([say("Hello.")])
    named = {"answering": answering, "cheap": cheap}
    yard = build_yard("answering", named_model=named.__getitem__, title_model="cheap")
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        path = await http.create_conversation("hi", auto_title=True)
        await http.post(f"{path}/chat", {"content": "hi"})
        assert await read_title(http, path) == "Cheap title"
        rows = await yard.service.read_usage(UsageQuery(first_day=0, last_day=10**6, group_by=("model",)))
        assert sorted(row.model for row in rows) == ["answering", "cheap"]


async def test_the_offline_model_writes_no_titles() -> None:
    yard = build_yard("toolyard:offline", tools=[weigh])
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        path = await http.create_conversation("First words", auto_title=True)
        await http.post(f"{path}/chat", {"content": "hello"})
        await http.post(f"{path}/chat", {"content": "hello"})
        assert (await http.get(path))["conversation"]["title"] == "First words"
        (row,) = await yard.service.read_usage(UsageQuery(first_day=0, last_day=10**6))
        assert row.turns == 2


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("**Bread for two**", "Bread for two"),
        ("\n\n# Öl & Salz.\nmore", "Öl & Salz"),
        ("a\u202eb\x07c", "abc"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("\n ", ""),
    ],
)
def test_a_title_is_one_short_line(text: str, title: str) -> None:
    assert clean_title(text) == title
