"""A server asks the user: the call waits, shows the question, and goes on with the answer. In both eras."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S, collect_events, get_problem, open_yard, wait_for_event, wait_until
from toolyard import Caller, Run, Scripted, Yard
from toolyard.core.errors import Refused
from toolyard.core.events import CallEnded, CallParked
from toolyard.core.items import Result
from toolyard.core.mcp_servers import ServerSpec
from toolyard.venues.mcp.venue import MAX_ASKING_SESSIONS
from venues.mcp.modern import over_http, over_stdio
from venues.mcp.plain import Plain

ASKED = {"server": "plain", "mode": "form", "message": "What is your name?"}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def parked(run: Run, after: int = 0) -> CallParked:
    """The question after so many others."""
    found: list[CallParked] = []
    async for event in run:
        if isinstance(event, CallParked):
            found.append(event)
            if len(found) > after:
                return event
    raise AssertionError("no question came")


async def ended(run: Run) -> Result:
    return (await wait_for_event(run, CallEnded))[0].result


REPLIES: list[tuple[str, dict[str, object], str, str]] = [
    ("accepted", {"name": "Ann"}, "hello Ann", '{"action": "accept", "content": {"name": "Ann"}}'),
    ("declined", {}, "the user chose to decline", '{"action": "decline"}'),
    ("cancelled", {}, "the user chose to cancel", '{"action": "cancel"}'),
]


@pytest.mark.parametrize(("reply", "content", "_", "told"), REPLIES)
async def test_in_the_old_era(tmp_path: Path, reply: str, content: dict[str, object], _: str, told: str) -> None:
    plain = Plain(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        run = yard.call("ask", {})
        question = (await parked(run)).question
        assert question == {**ASKED, "requestedSchema": FORM}
        await yard.answer(run.conversation, (await parked(run)).call_id, content, reply=reply)  # pyright: ignore[reportArgumentType]
        assert (await ended(run)).content == f"answered {told}"
    assert plain.noted("began") == ["ask"]


@pytest.mark.parametrize(("reply", "content", "told", "_"), REPLIES)
async def test_in_the_new_era(reply: str, content: dict[str, object], told: str, _: str) -> None:
    async with open_yard([], servers={"modern": over_stdio()}) as yard:
        run = yard.call("greet", {})
        asked = await parked(run)
        assert asked.question["message"] == "What is your name?" and asked.question["server"] == "modern"
        await yard.answer(run.conversation, asked.call_id, content, reply=reply)  # pyright: ignore[reportArgumentType]
        assert (await ended(run)).content == told


async def test_two_questions_are_asked_one_after_the_other() -> None:
    async with open_yard([], servers={"modern": over_stdio()}) as yard:
        run = yard.call("describe", {})
        first = await parked(run)
        await yard.answer(run.conversation, first.call_id, {"name": "Ann"})
        second = await parked(run, after=1)
        assert {first.question["message"], second.question["message"]} == {"What is your name?", "How old are you?"}
        await yard.answer(run.conversation, second.call_id, {"age": 7})
        assert (await ended(run)).content == "Ann is 7"


@pytest.mark.parametrize("era", ["old", "new"])
async def test_an_answer_that_does_not_fit_the_form_is_asked_for_again(tmp_path: Path, era: str) -> None:
    spec, tool = (over_stdio(), "greet") if era == "new" else (Plain(tmp_path).spec, "ask_look")
    async with open_yard([], servers={"asking": spec}) as yard:
        run = yard.call(tool, {})
        await yard.answer(run.conversation, (await parked(run)).call_id, {"name": 7})
        again = await parked(run, after=1)
        assert "name" in str(again.question["problem"])
        await yard.answer(run.conversation, again.call_id, {"name": "Ann"})
        assert "Ann" in (await ended(run)).content


def in_two_processes(
    tmp_path: Path, spec: ServerSpec, tool: str, after: Callable[[Yard, str, CallParked], Awaitable[None]]
) -> None:
    """A question is asked in one yard and answered in the next, over the same store."""

    def yard() -> Yard:
        return Yard(model=Scripted([]), servers={"asking": spec}, store=f"sqlite:///{tmp_path}/yard.db", grace_s=0.1)

    async def both() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_S):
            async with yard() as first:
                run = first.call(tool, {})
                asked = await parked(run)
            async with yard() as second:
                await after(second, run.conversation, asked)

    asyncio.run(both())


async def answered(yard: Yard, conversation: str, asked: CallParked) -> Result:
    reader = await yard.follow(conversation)
    await yard.answer(conversation, asked.call_id, {"name": "Ann"})
    while True:
        for item, _ in await reader.read_batch():
            event = getattr(item, "event", None)
            if isinstance(event, CallEnded):
                reader.detach()
                return event.result


@pytest.mark.parametrize("era", ["old", "new"])
def test_an_answer_that_comes_after_a_restart_is_used(tmp_path: Path, era: str) -> None:
    spec, tool = (over_stdio(), "greet") if era == "new" else (Plain(tmp_path).spec, "ask_look")

    async def after(yard: Yard, conversation: str, asked: CallParked) -> None:
        assert "Ann" in (await answered(yard, conversation, asked)).content

    in_two_processes(tmp_path, spec, tool, after)


def test_a_call_of_the_old_era_that_was_lost_while_it_waited_is_owned_up_to(tmp_path: Path) -> None:
    plain = Plain(tmp_path, trust=True)

    async def after(yard: Yard, conversation: str, asked: CallParked) -> None:
        assert get_problem(await answered(yard, conversation, asked)) == ("unknown", "unknown_outcome")

    in_two_processes(tmp_path, plain.spec, "ask", after)
    assert plain.noted("began") == ["ask"], "it is not made again"


async def test_stopping_a_run_that_waits_with_a_question_tells_the_server(tmp_path: Path) -> None:
    plain = Plain(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        run = yard.call("ask", {})
        asked = await parked(run)
        link = yard.servers.get_connection("plain", Caller())
        assert link.describe().in_flight == 1
        await run.stop()
        await wait_until(lambda: link.describe().in_flight == 0)
        with pytest.raises(Refused):
            await yard.answer(run.conversation, asked.call_id, {"name": "Ann"})


async def test_a_question_that_could_be_anybodys_is_asked_of_nobody(tmp_path: Path) -> None:
    """Two calls of two users at once; afterwards the server's calls run one at a time, and each is asked."""
    plain = Plain(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        slow = yard.call("slow", {}, caller=Caller(user="bob"))
        waiting = asyncio.create_task(collect_events(slow))
        await wait_until(lambda: plain.noted("began") == ["slow"])
        refused = await ended(yard.call("ask", {}, caller=Caller(user="ann")))
        assert "which of several calls" in refused.content
        await slow.stop()
        await waiting
        for name in ("ann", "bob"):
            await asked_by_name(yard, yard.call("ask", {}, caller=Caller(user=name)), name)


async def asked_by_name(yard: Yard, run: Run, name: str) -> None:
    question = await parked(run)
    await yard.answer(run.conversation, question.call_id, {"name": name}, caller=Caller(user=name))
    assert f'"name": "{name}"' in (await ended(run)).content


async def test_while_a_question_is_open_another_call_is_asked_in_a_session_of_its_own(tmp_path: Path) -> None:
    """Ann's call waits for her answer: what the server asks on that session may be hers, so Bob's call has another."""
    plain = Plain(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        anns = yard.call("ask", {}, caller=Caller(user="ann"))
        await parked(anns)
        await asked_by_name(yard, yard.call("ask", {}, caller=Caller(user="bob")), "bob")
        await asked_by_name(yard, anns, "ann")
        await asked_by_name(yard, yard.call("ask", {}, caller=Caller(user="cleo")), "cleo")
    assert len(plain.processes) == 2, "without an open question all share one session"


async def test_a_tool_that_has_answered_without_asking_keeps_its_session_while_a_question_is_open(
    tmp_path: Path,
) -> None:
    """A server may keep state in its process: only calls that may ask go elsewhere."""
    plain = Plain(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        before = (await ended(yard.call("look", {}))).content
        anns = yard.call("ask", {}, caller=Caller(user="ann"))
        await parked(anns)
        assert (await ended(yard.call("look", {}))).content == before
        assert (await ended(yard.call("add", {}))).content != before, "it was never called: it may ask"
        await asked_by_name(yard, anns, "ann")


async def test_a_session_that_was_opened_for_a_question_ends_when_it_is_idle(tmp_path: Path) -> None:
    plain = Plain(tmp_path, trust=True, idle_s=0.1)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        anns = yard.call("ask", {}, caller=Caller(user="ann"))
        await parked(anns)
        await asked_by_name(yard, yard.call("ask", {}, caller=Caller(user="bob")), "bob")
        anns_process, bobs_process = plain.processes
        await wait_until(lambda: plain.alive == [anns_process])
        assert bobs_process != anns_process
        await asked_by_name(yard, anns, "ann")


async def test_the_sessions_for_questions_are_bounded_and_one_too_many_is_refused_with_words(tmp_path: Path) -> None:
    plain = Plain(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        runs = [yard.call("ask", {}, caller=Caller(user=f"user{number}")) for number in range(MAX_ASKING_SESSIONS)]
        for run in runs:
            await parked(run)
        refused = await ended(yard.call("ask", {}, caller=Caller(user="late")))
        assert get_problem(refused) == ("error", "unavailable") and "wait for their users' answers" in refused.content
        await asked_by_name(yard, runs[3], "user3")
        await asked_by_name(yard, yard.call("ask", {}, caller=Caller(user="late")), "late")
    assert len(plain.processes) == MAX_ASKING_SESSIONS


async def test_over_http_a_question_of_the_old_era_finds_its_call() -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S), over_http() as server:
        spec = server.spec(protocol="2025-11-25")
        async with Yard(model=Scripted([]), servers={"http": spec}) as yard:
            other = asyncio.create_task(collect_events(yard.call("wait", {"seconds": 3})))
            runs = [yard.call("greet", {}) for _ in range(2)]
            asked = await asyncio.gather(*(parked(run) for run in runs))
            for number, (run, question) in enumerate(zip(runs, asked, strict=True)):
                await yard.answer(run.conversation, question.call_id, {"name": f"n{number}"})
                assert (await ended(run)).content == f"hello n{number}"
            other.cancel()
            assert yard.servers.cards()[0].protocol == "2025-11-25"


async def test_without_leave_a_server_gets_neither_a_model_nor_roots(tmp_path: Path) -> None:
    """It is not told that there is any; if it asks all the same it is refused, and nobody is bothered."""
    plain = Plain(tmp_path, "typed", trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        came = await ended(yard.call("asks_model", {}))
        assert '"code": -3260' in came.content and "answered" in came.content
    (told,) = plain.noted("client")
    assert "elicitation" in told and "sampling" not in told and "roots" not in told


async def test_with_leave_too_a_call_without_an_mcp_client_claims_neither_a_model_nor_roots(tmp_path: Path) -> None:
    """Only an MCP client has them; a caller over HTTP could not answer."""
    plain = Plain(tmp_path, "typed", trust=True, sampling=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        came = await ended(yard.call("asks_model", {}))
        assert '"code": -3260' in came.content
    (told,) = plain.noted("client")
    assert "elicitation" in told and "sampling" not in told and "roots" not in told


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_tool_that_may_be_repeated_asks_by_push_at_its_first_call(way: str) -> None:
    """The server speaks both eras, and in the new one the tool cannot ask."""
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        spec = over_stdio() if way == "stdio" else (await stack.enter_async_context(over_http())).spec()
        yard = await stack.enter_async_context(Yard(model=Scripted([]), servers={"both": spec}))
        run = yard.call("push_look", {})
        await yard.answer(run.conversation, (await parked(run)).call_id, {"name": "Ann"})
        assert (await ended(run)).content == "hello Ann"
        assert yard.servers.cards()[0].protocol == "2026-07-28", "other tools stay in the new era"


async def test_a_tool_that_may_not_be_repeated_asks_by_push_from_its_second_call_on(tmp_path: Path) -> None:
    """What it did before it wanted to ask is not known: it is not called again unasked. It is remembered."""
    spec = over_stdio(trust=True)

    def yard() -> Yard:
        return Yard(model=Scripted([]), servers={"both": spec}, store=f"sqlite:///{tmp_path}/yard.db")

    async with asyncio.timeout(TEST_TIMEOUT_S):
        async with yard() as first:
            failed = await ended(first.call("push", {}))
            assert get_problem(failed) == ("error", "execution_error")
            assert "no back-channel" in failed.content and "find out" in failed.content
        async with yard() as second:
            run = second.call("push", {})
            await second.answer(run.conversation, (await parked(run)).call_id, {"name": "Ann"})
            assert (await ended(run)).content == "hello Ann after 1 calls", "in a process that ran it once"
