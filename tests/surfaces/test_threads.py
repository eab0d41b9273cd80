"""Threads of front ends: whose they are, and which message starts, repeats, edits or answers what."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.api_client import build_key, build_yard, connect_api_client
from toolyard import Tool, Yard, tool
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import RunRequest
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import Invalid, NotFound, Refused
from toolyard.core.items import MAX_ID_CHARS, Call, Item, ModelText, Result, TextPart, UserMessage
from toolyard.core.ports import Value
from toolyard.engine.log.open_runs import is_at_rest
from toolyard.surfaces.shared.threads import (
    CallDecision,
    Thread,
    ThreadMessage,
    ThreadRun,
    Threads,
    derive_conversation_id,
)
from toolyard.testing import Script, Scripted, call, say, together

ANN = Caller(user="ann", tenant="t")
NOTHING = RunRequest()
TAKE_PHOTO = Tool(name="take_photo", description="Take a photo.", venue="client")
WITH_CAMERA = RunRequest(app_tools=(TAKE_PHOTO,))


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    return f"ordered {item}"


class ThreadTalk:
    """A thread of one user in a yard."""

    def __init__(self, yard: Yard, caller: Caller = ANN, thread_id: str = "thread-1") -> None:
        self.yard = yard
        self.threads = Threads(yard.service, yard.access)
        conversation = derive_conversation_id(caller, thread_id)
        self.thread = Thread(conversation=conversation, caller=caller, correlation_id="trace")

    async def send(self, id: str, text: str, request: RunRequest = NOTHING) -> RunView:
        return await read(await self.threads.send(self.thread, message(id, text), request))

    async def list_texts(self) -> list[str]:
        return [describe(item) for item in await self.yard.history(self.thread.conversation)]


def message(id: str, text: str) -> ThreadMessage:
    return ThreadMessage(id=id, parts=(TextPart(text=text),))


def describe(item: Item) -> str:
    match item:
        case UserMessage() | ModelText():
            return item.text
        case Call():
            return item.tool
        case Result():
            return item.content
        case _:
            raise AssertionError(item)


async def read(run: ThreadRun) -> RunView:
    """Return the view of a run once it has ended or waits."""
    view, log_end = run.view, run.reader.end
    try:
        while True:
            for item, cursor in await run.reader.read_batch():
                view.apply(item)
                if is_at_rest(view, cursor.seq, log_end):
                    return view
    finally:
        run.reader.detach()


@asynccontextmanager
async def open_talk(script: Script, **wiring: object) -> AsyncGenerator[ThreadTalk, None]:
    async with build_yard(script, **wiring) as yard:
        yield ThreadTalk(yard)


def test_no_two_users_threads_share_a_conversation() -> None:
    callers = [Caller(user="ab", tenant="c"), Caller(user="b", tenant="ca"), Caller(user="a", tenant="cb"), ANN]
    ids = {
        derive_conversation_id(caller, thread_id) for caller in callers for thread_id in ("x", "bx", "cx", "x" * 200)
    }
    assert len(ids) == 16
    assert all(id.startswith("thread_") and len(id) <= MAX_ID_CHARS for id in ids)


def test_a_thread_is_found_again_with_other_roles() -> None:
    promoted = Caller(user="ann", tenant="t", roles=frozenset({"operator"}), division="d")
    assert derive_conversation_id(promoted, "x") == derive_conversation_id(ANN, "x")


@pytest.mark.parametrize("thread_id", ["", "x" * 201])
def test_a_thread_needs_an_id_of_reasonable_length(thread_id: str) -> None:
    with pytest.raises(Invalid, match="1 to 200 characters"):
        derive_conversation_id(ANN, thread_id)


async def test_no_other_route_opens_a_conversation_under_the_id_of_a_thread() -> None:
    """Otherwise somebody could be there before its user."""
    keys = [build_key("eve"), build_key("ann")]
    conversation = derive_conversation_id(ANN, "x")
    async with build_yard([], keys=keys) as yard, connect_api_client(yard) as http:
        eve = http.with_key("eve")
        bodies: Sequence[tuple[str, object]] = [
            ("/ai/respond", {"prompt": "Hello", "conversation_id": conversation}),
            ("/chat/v1/conversation", {"messages": [{"role": "user", "content": "x"}], "conversationId": conversation}),
            (f"/conversations/{conversation}/chat", {"content": "Hello"}),
            (f"/conversations/{conversation}/messages", {"role": "user", "content": "x"}),
            (f"/conversations/{conversation}/fork", {}),
        ]
        for path, body in bodies:
            assert (await eve.send_request("POST", path, body))[0] == 404, path
        chat = {"messages": [{"role": "user", "content": "x"}], "store": True, "conversation": conversation}
        for path, body in (
            ("/v1/chat/completions", chat),
            ("/v1/responses", {"input": "x", "conversation": conversation}),
        ):
            assert (await eve.send_request("POST", path, body))[0] == 404, path
        assert (await yard.service.conversations.view(conversation)).owner is None


async def test_a_message_starts_a_run_and_a_second_one_goes_on_in_the_thread() -> None:
    async with open_talk([say("Hello."), say("Again.")]) as talk:
        assert (await talk.send("m1", "Hi")).text == "Hello."
        assert (await talk.send("m2", "Hi again")).text == "Again."
        assert await talk.list_texts() == ["Hi", "Hello.", "Hi again", "Again."]


async def test_a_message_that_is_sent_again_follows_its_run() -> None:
    async with open_talk([say("Hello."), say("Again.")]) as talk:
        first = await talk.send("m1", "Hi")
        await talk.send("m2", "Hi again")
        again = await talk.send("m1", "Hi")
        assert (again.run_id, again.text) == (first.run_id, "Hello.")
        assert await talk.list_texts() == ["Hi", "Hello.", "Hi again", "Again."]


async def test_another_users_thread_of_the_same_id_is_another_conversation() -> None:
    async with open_talk([say("Hello Ann."), say("Hello Eve.")]) as talk:
        eve = ThreadTalk(talk.yard, Caller(user="eve", tenant="t"))
        await talk.send("m1", "I am Ann")
        await eve.send("m1", "I am Eve")
        assert await talk.list_texts() == ["I am Ann", "Hello Ann."]
        assert await eve.list_texts() == ["I am Eve", "Hello Eve."]


async def test_a_conversation_of_somebody_else_under_the_id_is_not_entered() -> None:
    async with open_talk([say("Hello.")]) as talk:
        await talk.send("m1", "Hi")
        eve = Thread(
            conversation=talk.thread.conversation, caller=Caller(user="eve", tenant="t"), correlation_id="trace"
        )
        with pytest.raises(NotFound):
            await talk.threads.send(eve, message("m2", "Let me in"), NOTHING)
        with pytest.raises(NotFound):
            await talk.threads.answer_calls(eve, [], {"call_1": Value(value=1)})
        assert await talk.threads.follow_open_run(eve) is None


async def test_a_message_with_other_content_replaces_what_it_was() -> None:
    async with open_talk([say("One."), say("Two."), say("Three.")]) as talk:
        await talk.send("m1", "First")
        await talk.send("m2", "Second")
        await talk.send("m1", "First, edited")
        assert await talk.list_texts() == ["First, edited", "Three."]


async def test_a_message_that_is_edited_back_is_answered_again() -> None:
    async with open_talk([say("One."), say("Two."), say("Three.")]) as talk:
        await talk.send("m1", "A")
        await talk.send("m1", "B")
        edited_back = await talk.send("m1", "A")
        assert edited_back.text == "Three."
        assert (await talk.send("m1", "A")).run_id == edited_back.run_id
        assert await talk.list_texts() == ["A", "Three."]


async def test_a_message_of_a_branch_that_comes_again_late_does_not_leave_the_current_one() -> None:
    async with open_talk([say("One."), say("Two."), say("Three.")]) as talk:
        await talk.send("m1", "First")
        second = await talk.send("m2", "Second")
        await talk.send("m1", "First, edited")
        assert (await talk.send("m2", "Second")).run_id == second.run_id
        assert await talk.list_texts() == ["First, edited", "Three."]


async def test_a_message_is_answered_once_more() -> None:
    async with open_talk([say("One."), say("Another one.")]) as talk:
        await talk.send("m1", "First")
        again = await read(await talk.threads.regenerate(talk.thread, message("m1", "First"), NOTHING))
        assert again.text == "Another one."
        assert (await talk.send("m1", "First")).run_id == again.run_id
        assert await talk.list_texts() == ["First", "Another one."]


async def test_a_message_that_the_log_does_not_have_is_simply_answered() -> None:
    async with open_talk([say("One.")]) as talk:
        answered = await read(await talk.threads.regenerate(talk.thread, message("m1", "First"), NOTHING))
        assert answered.text == "One."


async def test_an_edit_ends_the_run_that_waits() -> None:
    async with open_talk([call("order", item="milk"), say("Fine.")], tools=[order]) as talk:
        assert (await talk.send("m1", "Order milk")).status == "waiting"
        assert (await talk.send("m1", "Order nothing")).text == "Fine."
        assert await talk.list_texts() == ["Order nothing", "Fine."]


async def test_a_new_message_ends_the_run_that_waits_and_the_model_is_told() -> None:
    async with open_talk([call("order", item="milk"), say("Fine.")], tools=[order]) as talk:
        await talk.send("m1", "Order milk")
        assert (await talk.send("m2", "Never mind")).text == "Fine."
        texts = await talk.list_texts()
        assert (texts[0], texts[-2:]) == ("Order milk", ["Never mind", "Fine."])
        assert "cancelled" in texts[2]


async def test_decisions_and_results_are_handed_over_and_the_run_is_followed_from_there() -> None:
    script = [together(call("order", item="milk"), call("take_photo")), say("Done.")]
    async with open_talk(script, tools=[order]) as talk:
        waiting = await talk.send("m1", "Order milk and show it", WITH_CAMERA)
        ids = {call.call.tool: call.call.id for call in waiting.calls.values()}
        decisions, results = [CallDecision(call_id=ids["order"], approved=True)], {ids["take_photo"]: Value(value="x")}
        ended = await read(await talk.threads.answer_calls(talk.thread, decisions, results))
        assert ended.text == "Done."
        again = await read(await talk.threads.answer_calls(talk.thread, decisions, results))
        assert (again.run_id, again.text) == (ended.run_id, "Done.")
        with pytest.raises(Refused, match="was approved before, by 'ann'"):
            await talk.threads.answer_calls(talk.thread, [CallDecision(call_id=ids["order"], approved=False)], {})


async def test_an_edited_call_runs_with_the_edited_arguments() -> None:
    async with open_talk([call("order", item="milk"), say("Done.")], tools=[order]) as talk:
        (waiting,) = (await talk.send("m1", "Order milk")).open_calls
        decision = CallDecision(call_id=waiting.call.id, approved=True, arguments={"item": "oat milk"})
        await read(await talk.threads.answer_calls(talk.thread, [decision], {}))
        assert (await talk.list_texts())[2].endswith("ordered oat milk")


async def test_an_answer_to_an_unknown_call_changes_nothing() -> None:
    async with open_talk([call("order", item="milk"), say("Denied.")], tools=[order]) as talk:
        (waiting,) = (await talk.send("m1", "Order milk")).open_calls
        denial = CallDecision(call_id=waiting.call.id, approved=False, reason="too dear")
        with pytest.raises(Refused, match="'call_x' does not wait for an approval here: there is no such call"):
            await talk.threads.answer_calls(talk.thread, [denial, CallDecision(call_id="call_x", approved=True)], {})
        with pytest.raises(Refused, match="'call_x' does not wait for a result here: there is no such call"):
            await talk.threads.answer_calls(talk.thread, [denial], {"call_x": Value(value=1)})
        with pytest.raises(Refused, match="answers no call"):
            await talk.threads.answer_calls(talk.thread, [], {})
        assert (await read(await talk.threads.answer_calls(talk.thread, [denial], {}))).text == "Denied."


async def test_the_open_run_is_followed_from_its_start_and_none_if_there_is_none() -> None:
    async with open_talk([call("order", item="milk")], tools=[order]) as talk:
        assert await talk.threads.follow_open_run(talk.thread) is None
        started = await talk.send("m1", "Order milk")
        followed = await talk.threads.follow_open_run(talk.thread)
        assert followed is not None
        view = await read(followed)
        assert (view.run_id, view.status, len(view.calls)) == (started.run_id, "waiting", 1)
        await talk.threads.stop(talk.thread)
        assert await talk.threads.follow_open_run(talk.thread) is None


@asynccontextmanager
async def open_pair(model: Scripted, **wiring: object) -> AsyncGenerator[tuple[ThreadTalk, ThreadTalk], None]:
    """Open the same thread on two replicas of a server."""
    database = MemoryDatabase()
    async with (
        build_yard(model, opened_store=SharedMemoryStore(database), **wiring) as first,
        build_yard(model, opened_store=SharedMemoryStore(database), **wiring) as second,
    ):
        yield ThreadTalk(first), ThreadTalk(second)


async def test_a_message_that_reaches_two_replicas_at_once_is_answered_once() -> None:
    model = Scripted([say("Hello.")])
    async with open_pair(model) as (first, second):
        views = await asyncio.gather(*(talk.send("m1", "Hi") for talk in (first, second, first, second)))
        assert {(view.run_id, view.text) for view in views} == {(views[0].run_id, "Hello.")}
        assert len(model.requests) == 1


async def test_another_replica_takes_the_answers_edits_and_stops_of_a_thread() -> None:
    model = Scripted([call("order", item="milk"), say("Ordered."), call("order", item="tea"), say("Tea, then.")])
    async with open_pair(model, tools=[order]) as (first, second):
        (waiting,) = (await first.send("m1", "Order milk")).open_calls
        decision = CallDecision(call_id=waiting.call.id, approved=True)
        answered = await read(await second.threads.answer_calls(second.thread, [decision], {}))
        assert answered.text == "Ordered."
        await second.send("m1", "Order tea")
        assert (await first.send("m1", "Order nothing")).text == "Tea, then."
        assert await second.list_texts() == ["Order nothing", "Tea, then."]


async def test_answers_that_reach_two_replicas_at_once_take_effect_once() -> None:
    model = Scripted([call("order", item="milk"), say("Ordered.")])
    async with open_pair(model, tools=[order]) as (first, second):
        (waiting,) = (await first.send("m1", "Order milk")).open_calls
        decision = CallDecision(call_id=waiting.call.id, approved=True)

        async def decide(talk: ThreadTalk) -> RunView:
            return await read(await talk.threads.answer_calls(talk.thread, [decision], {}))

        views = await asyncio.gather(*(decide(talk) for talk in (first, second, second, first)))
        assert [view.text for view in views] == ["Ordered."] * 4
        assert len(model.requests) == 2


async def test_two_edits_at_once_leave_one_of_them_and_the_other_as_a_branch() -> None:
    async with open_talk(lambda _: say("ok")) as talk:
        await talk.send("m1", "A")
        views = await asyncio.gather(talk.send("m1", "B"), talk.send("m1", "C"))
        assert len({view.run_id for view in views}) == 2
        assert await talk.list_texts() == ["C", "ok"]


async def test_a_thread_goes_on_after_a_restart(tmp_path: object) -> None:
    store = f"sqlite:///{tmp_path}/threads.db"
    async with open_talk([say("One.")], store=store) as talk:
        first = await talk.send("m1", "First")
    async with open_talk([say("Two.")], store=store) as talk:
        assert (await talk.send("m1", "First")).run_id == first.run_id
        await talk.send("m1", "Edited")
        assert await talk.list_texts() == ["Edited", "Two."]
