"""Edit and resend, answer again, return to a branch, and fork: nothing that was said is lost."""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

import pytest

from support import open_yard
from surfaces.api_client import Json, build_key, build_yard, connect_api_client, open_api_client
from toolyard import RunWaiting, tool
from toolyard.core.conversation.branches import Branch
from toolyard.core.conversation.commands import Delete
from toolyard.core.conversation.events import Entry, RunEnded
from toolyard.core.conversation.history import History
from toolyard.core.items import ModelText, Result, TextPart, UserMessage
from toolyard.surfaces.conversations.conversations import build_branch_summaries
from toolyard.testing import Scripted, call, say
from toolyard.yard import LOCAL_CALLER

LONG = "word " * 20_000


@tool
def look(at: str) -> str:
    """Return a long text."""
    return f"{at}: {LONG}"


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    return f"ordered {item}"


async def list_texts(http: Json, path: str) -> list[str]:
    return [message["content"] for message in await http.list_messages(path)]


async def test_a_message_is_edited_and_sent_again_and_the_first_version_can_be_returned_to() -> None:
    async with open_api_client([say("one"), say("two"), say("three")]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "first"})
        await http.post(f"{path}/chat", {"content": "second"})
        messages = await http.list_messages(path)
        rewound = (await http.post(f"{path}/rewind", {"to": messages[1]["id"]}))["conversation"]
        assert [message["content"] for message in rewound["messages"]] == ["first", "one"]
        await http.post(f"{path}/chat", {"content": "second, edited"})
        assert await list_texts(http, path) == ["first", "one", "second, edited", "three"]
        shown = (await http.get(path))["conversation"]
        (branch,) = shown["branches"]
        assert (branch["parent"], branch["first"], branch["head"], branch["messages"]) == (
            messages[1]["id"],
            messages[2]["id"],
            messages[3]["id"],
            2,
        )
        await http.post(f"{path}/rewind", {"to": branch["head"]})
        assert await list_texts(http, path) == ["first", "one", "second", "two"]
        (other,) = (await http.get(path))["conversation"]["branches"]
        assert other["messages"] == 2 and other["parent"] == messages[1]["id"]
        await http.post(f"{path}/rewind", {"to": ""})
        assert await list_texts(http, path) == []
        assert [branch["parent"] for branch in (await http.get(path))["conversation"]["branches"]] == [None, None]


async def test_a_message_is_answered_again_and_the_model_does_not_see_its_first_answer() -> None:
    async with open_api_client([say("one"), say("another")]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "first"})
        question = (await http.list_messages(path))[0]
        await http.post(f"{path}/rewind", {"to": question["id"]})
        answer = await http.post(f"{path}/chat", {"content": ""})
        assert answer["assistant_message"]["content"] == "another" and answer["user_message"]["id"] == question["id"]
        assert await list_texts(http, path) == ["first", "another"]
        refusal = await http.post(f"{path}/chat", {"content": ""}, expect=422)
        assert "must not be empty" in refusal["error"]


async def test_a_rewind_is_refused_in_words_inside_a_turn_while_a_run_is_open_and_for_others() -> None:
    keys = [build_key("ann"), build_key("bob"), build_key("boss", "operator")]
    async with open_api_client([call("order", item="milk"), say("done")], tools=[order], keys=keys) as everyone:
        http = everyone.with_key("ann")
        path = await http.create_conversation()
        waiting = await http.post(f"{path}/chat", {"content": "milk"}, expect=202)
        question = (await http.list_messages(path))[0]["id"]
        assert "a run is open" in (await http.post(f"{path}/rewind", {"to": question}, expect=409))["error"]
        assert "a run is open" in (await http.post(f"{path}/fork", {}, expect=409))["error"]
        assert "has not ended" in (await http.post(f"{path}/fork", {"after": waiting["run_id"]}, expect=409))["error"]
        (waits,) = waiting["waiting"]
        await http.post(f"{path}/calls/{waits['call_id']}/approve", {})
        await http.read_until_done(path)
        calling = (await http.list_messages(path))[1]["id"]
        assert "middle of a turn" in (await http.post(f"{path}/rewind", {"to": calling}, expect=409))["error"]
        assert "no item" in (await http.post(f"{path}/rewind", {"to": "nowhere"}, expect=409))["error"]
        await http.post(f"{path}/rewind", {"too": ""}, expect=422)
        for other in ("bob", "boss"):
            await everyone.with_key(other).post(f"{path}/rewind", {"to": ""}, expect=404)
            await everyone.with_key(other).post(f"{path}/fork", {}, expect=404)
        assert len(await http.list_messages(path)) == 4


async def test_a_fork_has_the_messages_and_whole_results_and_goes_its_own_way() -> None:
    script = [call("look", at="a"), say("seen"), say("more"), say("elsewhere")]
    async with open_api_client(script, tools=[look]) as http:
        path = await http.create_conversation("Trip", system_prompt="Be brief.")
        first = await http.post(f"{path}/chat", {"content": "look"})
        await http.post(f"{path}/chat", {"content": "and more"})
        forked = (await http.post(f"{path}/fork", {"after": first["run_id"]}, expect=201))["conversation"]
        origin = {"conversation_id": path.rpartition("/")[2], "after": first["run_id"]}
        assert (forked["forked_from"], forked["title"], forked["system_prompt"]) == (origin, "Trip", "Be brief.")
        assert [message["role"] for message in forked["messages"]] == ["user", "assistant", "tool", "assistant"]
        fork_path = f"/conversations/{forked['id']}"
        await http.post(f"{fork_path}/chat", {"content": "go on"})
        assert (await list_texts(http, fork_path))[-2:] == ["go on", "elsewhere"]
        assert (await list_texts(http, path))[-2:] == ["and more", "more"]
        await http.delete(path)
        assert len(await http.list_messages(fork_path)) == 6
        assert [listed["id"] for listed in (await http.get("/conversations"))["conversations"]] == [forked["id"]]


async def test_a_fork_keeps_its_whole_results_when_its_origin_is_deleted_and_inherits_no_approval() -> None:
    script = [call("look", at="a"), call("order", item="milk"), say("done"), call("order", item="more")]
    async with open_yard(script, [look, order]) as yard:
        with pytest.raises(RunWaiting) as waiting:
            await yard.ask("go", conversation="c")
        reader = await yard.follow("c")
        await yard.approve("c", waiting.value.waiting_for[0], remember="tool")
        async for item in reader:
            if isinstance(item, Entry) and isinstance(item.event, RunEnded):
                break
        reader.detach()
        (handle,) = [item.handle for item in await yard.history("c") if isinstance(item, Result) and item.handle]
        fork = await yard.fork("c")
        await yard.service.conversations.submit("c", Delete(by=LOCAL_CALLER))
        whole = await yard.result(fork, handle)
        assert whole is not None and LONG.encode() in whole
        with pytest.raises(RunWaiting):
            await yard.ask("again", conversation=fork)


async def test_readers_are_told_of_a_rewind() -> None:
    async with open_api_client([say("one")]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "first"})
        await http.post(f"{path}/rewind", {"to": ""})
        async with aclosing(http.stream_events(f"{path}/events")) as events:
            async for _, event in events:
                if event["type"] == "history.rewound":
                    assert event["to"] == ""
                    break


def count_function_calls(work: Callable[[], object]) -> int:
    counts = Counter[str]()
    sys.setprofile(lambda _, event, __: counts.update([event]))
    try:
        work()
    finally:
        sys.setprofile(None)
    return counts["call"]


def test_the_list_of_branches_costs_nothing_for_the_messages_that_they_share() -> None:
    def build_history(messages: int) -> History:
        return History(
            UserMessage(id=f"item_{number}", at=0.0, parts=(TextPart(text="hello"),)) for number in range(messages)
        )

    costs: list[int] = []
    for messages in (128, 4096):
        history = build_history(messages)
        branches = [
            Branch(history=history.plus([ModelText(id=f"own_{number}", at=0.0, text="hi")]), left_at=0.0)
            for number in range(2)
        ]
        (first, second) = build_branch_summaries(history, branches)
        assert (first.parent, first.first, first.messages) == (f"item_{messages - 1}", "own_0", 1)
        assert (second.parent, second.first, second.messages) == (f"item_{messages - 1}", "own_1", 1)
        costs.append(count_function_calls(partial(build_branch_summaries, history, branches)))
    assert costs[1] < 2 * costs[0], costs


async def test_a_message_is_answered_again_by_another_model_and_both_answers_are_kept() -> None:
    models = {"one": Scripted([say("of one")]), "two": Scripted([say("of two")])}
    yard = build_yard("one", named_model=models.__getitem__)
    async with yard, connect_api_client(yard) as http:
        path = await http.create_conversation()
        question = (await http.post(f"{path}/chat", {"content": "which?"}))["user_message"]["id"]
        await http.post(f"{path}/rewind", {"to": question})
        again = await http.post(f"{path}/chat", {"content": "", "model": "two"})
        assert again["assistant_message"]["content"] == "of two"
        conversation = (await http.get(path))["conversation"]
        assert [message["content"] for message in conversation["messages"]] == ["which?", "of two"]
        assert (conversation["model"], len(conversation["branches"])) == ("", 1)
