"""A server asks the user: the call waits, shows the question, and goes on with the answer. In both eras."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from support import TEST_TIMEOUT_S, collect_events, get_problem, open_yard, wait_for_event, wait_until
from toolyard import Caller, Run, Yard
from toolyard.core.conversation.events import CallEnded, CallParked, CallStarted
from toolyard.core.errors import Refused
from toolyard.core.items import Result
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.testing import Scripted
from toolyard.venues.mcp.venue import MAX_ASKING_SESSIONS
from venues.mcp.modern import over_http, over_stdio
from venues.mcp.plain import PlainServer

QUESTION = {"server": "plain", "mode": "form", "message": "What is your name?"}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def wait_parked(run: Run, after: int = 0) -> CallParked:
    """The question after so many others."""
    parked_calls: list[CallParked] = []
    async for event in run:
        if isinstance(event, CallParked):
            parked_calls.append(event)
            if len(parked_calls) > after:
                return event
    raise AssertionError("no question came")


async def wait_result(run: Run) -> Result:
    return (await wait_for_event(run, CallEnded))[0].result


REPLIES: list[tuple[str, dict[str, object], str, str]] = [
    ("accepted", {"name": "Ann"}, "hello Ann", '{"action": "accept", "content": {"name": "Ann"}}'),
    ("declined", {}, "the user chose to decline", '{"action": "decline"}'),
    ("cancelled", {}, "the user chose to cancel", '{"action": "cancel"}'),
]


@pytest.mark.parametrize(("reply", "content", "_", "expected"), REPLIES)
async def test_in_the_old_era(tmp_path: Path, reply: str, content: dict[str, object], _: str, expected: str) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        run = yard.call("ask", {})
        question = (await wait_parked(run)).question
        assert question == {**QUESTION, "requestedSchema": FORM}
        await yard.answer(run.conversation, (await wait_parked(run)).call_id, content, reply=reply)  # pyright: ignore[reportArgumentType]
        assert (await wait_result(run)).content == f"answered {expected}"
    assert plain.read_notes("began") == ["ask"]


@pytest.mark.parametrize(("reply", "content", "expected", "_"), REPLIES)
async def test_in_the_new_era(reply: str, content: dict[str, object], expected: str, _: str) -> None:
    async with open_yard([], servers={"modern": over_stdio()}) as yard:
        run = yard.call("greet", {})
        question = await wait_parked(run)
        assert question.question["message"] == "What is your name?" and question.question["server"] == "modern"
        await yard.answer(run.conversation, question.call_id, content, reply=reply)  # pyright: ignore[reportArgumentType]
        assert (await wait_result(run)).content == expected


async def test_two_questions_are_asked_one_after_the_other() -> None:
    async with open_yard([], servers={"modern": over_stdio()}) as yard:
        run = yard.call("describe", {})
        first = await wait_parked(run)
        await yard.answer(run.conversation, first.call_id, {"name": "Ann"})
        second = await wait_parked(run, after=1)
        assert {first.question["message"], second.question["message"]} == {"What is your name?", "How old are you?"}
        await yard.answer(run.conversation, second.call_id, {"age": 7})
        assert (await wait_result(run)).content == "Ann is 7"


@pytest.mark.parametrize("era", ["old", "new"])
async def test_an_answer_that_does_not_fit_the_form_is_asked_for_again(tmp_path: Path, era: str) -> None:
    spec, tool = (over_stdio(), "greet") if era == "new" else (PlainServer(tmp_path).spec, "ask_look")
    async with open_yard([], servers={"asking": spec}) as yard:
        run = yard.call(tool, {})
        await yard.answer(run.conversation, (await wait_parked(run)).call_id, {"name": 7})
        again = await wait_parked(run, after=1)
        assert "name" in str(again.question["problem"])
        await yard.answer(run.conversation, again.call_id, {"name": "Ann"})
        assert "Ann" in (await wait_result(run)).content


def ask_then_restart(
    tmp_path: Path, spec: ServerSpec, tool: str, after: Callable[[Yard, str, CallParked], Awaitable[None]]
) -> None:
    """A question is asked in one yard and answered in the next, over the same store."""

    def yard() -> Yard:
        return Yard(model=Scripted([]), servers={"asking": spec}, store=f"sqlite:///{tmp_path}/yard.db", grace_s=0.1)

    async def both() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_S):
            async with yard() as first:
                run = first.call(tool, {})
                question = await wait_parked(run)
            async with yard() as second:
                await after(second, run.conversation, question)

    asyncio.run(both())


async def answer_question(yard: Yard, conversation: str, question: CallParked) -> Result:
    reader = await yard.follow(conversation)
    await yard.answer(conversation, question.call_id, {"name": "Ann"})
    while True:
        for item, _ in await reader.read_batch():
            event = getattr(item, "event", None)
            if isinstance(event, CallEnded):
                reader.detach()
                return event.result


@pytest.mark.parametrize("era", ["old", "new"])
def test_an_answer_that_comes_after_a_restart_is_used(tmp_path: Path, era: str) -> None:
    spec, tool = (over_stdio(), "greet") if era == "new" else (PlainServer(tmp_path).spec, "ask_look")

    async def after(yard: Yard, conversation: str, question: CallParked) -> None:
        assert "Ann" in (await answer_question(yard, conversation, question)).content

    ask_then_restart(tmp_path, spec, tool, after)


def test_a_call_of_the_old_era_that_was_lost_while_it_waited_is_owned_up_to(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)

    async def after(yard: Yard, conversation: str, question: CallParked) -> None:
        assert get_problem(await answer_question(yard, conversation, question)) == ("unknown", "unknown_outcome")

    ask_then_restart(tmp_path, plain.spec, "ask", after)
    assert plain.read_notes("began") == ["ask"], "it is not made again"


async def test_no_server_asks_in_the_name_of_another(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "spoofs", trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        parked, run = await wait_for_event(yard.call("ask", {}), CallParked)
        assert parked.question["server"] == "plain"
        await run.stop()


async def test_stopping_a_run_that_waits_with_a_question_tells_the_server(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        run = yard.call("ask", {})
        question = await wait_parked(run)
        link = yard.servers.get_connection("plain", Caller())
        assert link.describe().in_flight == 1
        await run.stop()
        await wait_until(lambda: link.describe().in_flight == 0)
        with pytest.raises(Refused):
            await yard.answer(run.conversation, question.call_id, {"name": "Ann"})


async def test_the_first_calls_of_a_server_that_ask_at_once_are_all_asked(tmp_path: Path) -> None:
    """Nobody knows yet that the tool asks, and the server does not say which call a question belongs to."""
    plain = PlainServer(tmp_path, trust=True, call_s=300.0)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        names = ("ann", "bob", "cleo", "dan")
        runs = [yard.call("ask", {}, caller=Caller(user=name)) for name in names]
        await asyncio.gather(*(answer_with_name(yard, run, name) for run, name in zip(runs, names, strict=True)))
    assert plain.read_notes("began") == ["ask"] * 4


async def test_calls_of_a_tool_that_has_answered_without_asking_run_at_once(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "waits", trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        for count in (1, 3):
            results = await asyncio.gather(*(wait_result(yard.call("meet", {})) for _ in range(count)))
            assert [result.outcome for result in results] == ["ok"] * count


async def test_a_call_does_not_wait_for_a_slow_call_that_may_ask(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, call_s=10.0)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        slow = asyncio.create_task(collect_events(yard.call("slow", {})))
        await wait_until(lambda: plain.read_notes("began") == ["slow"])
        assert (await wait_result(yard.call("add", {}))).outcome == "ok" and not slow.done()
        slow.cancel()
        await asyncio.wait([slow])


@asynccontextmanager
async def open_yard_with_unclear_question(plain: PlainServer) -> AsyncGenerator[tuple[Yard, Run, Run], None]:
    """Yield a yard with a call of Bob and one of Ann; the server asks for hers, which it had never done before."""
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        for tool in ("held", "ask_later", "look"):
            await wait_result(yard.call(tool, {}))
        bobs = yard.call("held", {}, caller=Caller(user="bob"))
        await wait_for_event(bobs, CallStarted)
        await wait_until(lambda: plain.read_notes("began")[3:] == ["held"])
        anns = yard.call("ask_later", {}, caller=Caller(user="ann"))
        await wait_for_event(anns, CallStarted)
        await wait_until(lambda: bool(plain.read_notes("asked")))
        await wait_result(yard.call("look", {}))  # its answer comes after the question
        yield yard, bobs, anns


async def test_a_question_that_could_be_anybodys_waits_until_the_other_calls_are_answered(tmp_path: Path) -> None:
    async with open_yard_with_unclear_question(PlainServer(tmp_path, "waits", trust=True)) as (yard, bobs, anns):
        await wait_result(yard.call("let_go", {}))
        assert (await wait_result(bobs)).outcome == "ok"
        await answer_with_name(yard, anns, "ann")


async def test_a_question_that_could_be_anybodys_is_asked_of_nobody(tmp_path: Path) -> None:
    """Bob's call is stopped without an answer: the question may have been about it."""
    async with open_yard_with_unclear_question(PlainServer(tmp_path, "waits", trust=True)) as (yard, bobs, anns):
        await bobs.stop()
        assert "which of several calls" in (await wait_result(anns)).content
        for name in ("ann", "bob"):
            await answer_with_name(yard, yard.call("ask_later", {}, caller=Caller(user=name)), name)


async def answer_with_name(yard: Yard, run: Run, name: str) -> None:
    question = await wait_parked(run)
    await yard.answer(run.conversation, question.call_id, {"name": name}, caller=Caller(user=name))
    assert f'"name": "{name}"' in (await wait_result(run)).content


async def test_while_a_question_is_open_another_call_is_asked_in_a_session_of_its_own(tmp_path: Path) -> None:
    """Ann's call waits for her answer: what the server asks on that session may be hers, so Bob's call has another."""
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        anns = yard.call("ask", {}, caller=Caller(user="ann"))
        await wait_parked(anns)
        await answer_with_name(yard, yard.call("ask", {}, caller=Caller(user="bob")), "bob")
        await answer_with_name(yard, anns, "ann")
        await answer_with_name(yard, yard.call("ask", {}, caller=Caller(user="cleo")), "cleo")
    assert len(plain.processes) == 2, "without an open question all share one session"


async def test_a_tool_that_has_answered_without_asking_keeps_its_session_while_a_question_is_open(
    tmp_path: Path,
) -> None:
    """A server may keep state in its process: only calls that may ask go elsewhere."""
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        before = (await wait_result(yard.call("look", {}))).content
        anns = yard.call("ask", {}, caller=Caller(user="ann"))
        await wait_parked(anns)
        assert (await wait_result(yard.call("look", {}))).content == before
        assert (await wait_result(yard.call("add", {}))).content != before, "it was never called: it may ask"
        await answer_with_name(yard, anns, "ann")


async def test_a_session_that_was_opened_for_a_question_ends_when_it_is_idle(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True, idle_s=0.1)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        anns = yard.call("ask", {}, caller=Caller(user="ann"))
        await wait_parked(anns)
        await answer_with_name(yard, yard.call("ask", {}, caller=Caller(user="bob")), "bob")
        anns_process, bobs_process = plain.processes
        await wait_until(lambda: plain.alive == [anns_process])
        assert bobs_process != anns_process
        await answer_with_name(yard, anns, "ann")


async def test_the_sessions_for_questions_are_bounded_and_one_too_many_is_refused_with_words(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, trust=True)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        runs = [yard.call("ask", {}, caller=Caller(user=f"user{number}")) for number in range(MAX_ASKING_SESSIONS)]
        for run in runs:
            await wait_parked(run)
        refused = await wait_result(yard.call("ask", {}, caller=Caller(user="late")))
        assert get_problem(refused) == ("error", "unavailable") and "wait for their users' answers" in refused.content
        await answer_with_name(yard, runs[3], "user3")
        await answer_with_name(yard, yard.call("ask", {}, caller=Caller(user="late")), "late")
    assert len(plain.processes) == MAX_ASKING_SESSIONS


async def test_over_http_a_question_of_the_old_era_finds_its_call() -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S), over_http() as server:
        spec = server.spec(protocol="2025-11-25")
        async with Yard(model=Scripted([]), servers={"http": spec}) as yard:
            other = asyncio.create_task(collect_events(yard.call("wait", {"seconds": 3})))
            runs = [yard.call("greet", {}) for _ in range(2)]
            questions = await asyncio.gather(*(wait_parked(run) for run in runs))
            for number, (run, question) in enumerate(zip(runs, questions, strict=True)):
                await yard.answer(run.conversation, question.call_id, {"name": f"n{number}"})
                assert (await wait_result(run)).content == f"hello n{number}"
            other.cancel()
            assert yard.servers.cards()[0].protocol == "2025-11-25"


@pytest.mark.parametrize("more", [{}, {"sampling": True}])
async def test_a_call_without_an_mcp_client_gets_a_trusted_server_neither_a_model_nor_roots(
    tmp_path: Path, more: dict[str, object]
) -> None:
    """Only an MCP client has them, and nothing is sampled with a model of the yard's own. A request is refused."""
    plain = PlainServer(tmp_path, "typed", trust=True, **more)
    async with open_yard([], servers={"plain": plain.spec}) as yard:
        call_result = await wait_result(yard.call("asks_model", {}))
        assert '"code": -3260' in call_result.content and "answered" in call_result.content
    (capabilities,) = plain.read_notes("client")
    assert "elicitation" in capabilities and "sampling" not in capabilities and "roots" not in capabilities


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_tool_that_may_be_repeated_asks_by_push_at_its_first_call(way: str) -> None:
    """The server speaks both eras, and in the new one the tool cannot ask."""
    async with asyncio.timeout(TEST_TIMEOUT_S), AsyncExitStack() as stack:
        spec = over_stdio() if way == "stdio" else (await stack.enter_async_context(over_http())).spec()
        yard = await stack.enter_async_context(Yard(model=Scripted([]), servers={"both": spec}))
        run = yard.call("push_look", {})
        await yard.answer(run.conversation, (await wait_parked(run)).call_id, {"name": "Ann"})
        assert (await wait_result(run)).content == "hello Ann"
        assert yard.servers.cards()[0].protocol == "2026-07-28", "other tools stay in the new era"


async def test_a_tool_that_may_not_be_repeated_asks_by_push_from_its_second_call_on(tmp_path: Path) -> None:
    """What it did before it wanted to ask is not known: it is not called again unasked. It is remembered."""
    spec = over_stdio(trust=True)

    def yard() -> Yard:
        return Yard(model=Scripted([]), servers={"both": spec}, store=f"sqlite:///{tmp_path}/yard.db")

    async with asyncio.timeout(TEST_TIMEOUT_S):
        async with yard() as first:
            failed = await wait_result(first.call("push", {}))
            assert get_problem(failed) == ("error", "execution_error")
            assert "no back-channel" in failed.content and "find out" in failed.content
        async with yard() as second:
            run = second.call("push", {})
            await second.answer(run.conversation, (await wait_parked(run)).call_id, {"name": "Ann"})
            assert (await wait_result(run)).content == "hello Ann after 1 calls", "in a process that ran it once"
