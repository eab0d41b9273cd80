"""What a hostile review found: each of these took down more than itself once, and must not again."""

import asyncio
import contextlib
import logging
import math
import re
import sqlite3
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from support import (
    collect_events,
    find_history_faults,
    get_ending,
    get_problem,
    get_result,
    get_results,
    join_text,
    open_yard,
    read_entries,
    wait_for_event,
)
from toolyard import Caller, Context, Limits, PolicyRequest, Settings, ToolError, UserMessage, Verdict, Yard, tool
from toolyard.core.conversation.events import (
    CallJudged,
    CallStarted,
    ModelDelta,
    RunQueued,
    RunSuspended,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.conversation.settings import SettingsChange
from toolyard.core.errors import Invalid, Misconfigured, Refused
from toolyard.core.items import Call, Item, ModelText, Result, TextPart
from toolyard.core.ports import ModelRequest
from toolyard.engine.replicas.ownership import MAX_IDLE
from toolyard.testing import Scripted, Turn, call, say, together


class Panic(BaseException):
    """Such as a native extension raises."""


@tool
def panic() -> None:
    """Raises what nobody catches."""
    raise Panic("in the tool")


@tool
async def leave() -> None:
    """Would end the program."""
    sys.exit(3)


@tool
def raise_stop_iteration() -> object:
    """Everyday code that raises StopIteration."""
    return next(iter(()))


@tool
async def cancel_itself() -> None:
    """Raises the error that means being stopped."""
    raise asyncio.CancelledError


@tool
def bad_words() -> None:
    """An error with half a character, as names of files may have."""
    raise FileNotFoundError("no file b\udcff")


@tool
def bad_details() -> None:
    """An error whose parts cannot be written."""
    raise ToolError(ValueError("x"), 404, {"o": object()})  # pyright: ignore[reportArgumentType]


HOSTILE = [panic, leave, raise_stop_iteration, cancel_itself, bad_words, bad_details]


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
@pytest.mark.parametrize("name", [tool.definition.name for tool in HOSTILE])
async def test_whatever_a_tool_raises_is_an_answer_and_the_yard_goes_on(name: str, store: str, tmp_path: Path) -> None:

    where = store if store == "memory:" else f"sqlite:///{tmp_path}/yard.db"
    async with open_yard([call(name), say("sorry"), say("fine")], HOSTILE, store=where) as yard:
        events = await collect_events(yard.run("go"))
        assert get_result(events).outcome == ("cancelled" if name == "cancel_itself" else "error")
        assert get_ending(events).ending == "done"
        assert await yard.ask("still there?") == "fine"


def nest_objects(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    "request_options",
    [
        {"message": "bad \ud800"},
        {"message": "bad \ud800" * 500},
        {"message": "x", "correlation_id": "\udcff"},
        {"message": "x", "caller": Caller(user="\udcff")},
        {"message": "x", "caller": Caller(user=17)},  # pyright: ignore[reportArgumentType]
        {"message": "x", "limits": Limits(run_seconds=math.inf)},
        {"message": (Call(id="c", at=0.0, tool="t", arguments={"x": object()}),)},
        {"message": (Call(id="c", at=0.0, tool="t", arguments=nest_objects(5000)),)},
        {"message": ()},
    ],
)
async def test_what_cannot_be_kept_is_refused_to_its_sender_and_nobody_else_notices(
    request_options: dict[str, object], tmp_path: Path
) -> None:
    async with open_yard([say("fine")], store=f"sqlite:///{tmp_path}/yard.db") as yard:
        with pytest.raises(Invalid):
            await yard.ask(**request_options)  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert await yard.ask("still there?") == "fine"


async def test_a_tool_with_a_rule_that_cannot_be_kept_is_refused_when_the_yard_opens() -> None:
    @tool(approval="ask", approval_s=math.inf)
    def never() -> None:
        """Would wait for ever."""

    with pytest.raises(Misconfigured, match="'never'"):
        async with open_yard([], [never]):
            pass


async def test_a_rule_with_an_unknown_word_denies() -> None:
    def shouting(question: PolicyRequest) -> Verdict:
        return Verdict("Allow", "loud")  # pyright: ignore[reportArgumentType]

    async with open_yard([call("panic"), say("ok")], [panic], rules=[shouting]) as yard:
        assert get_problem(get_result(await collect_events(yard.run("go")))) == ("denied", "permission_denied")


async def test_a_log_line_that_fails_does_not_end_the_yard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="toolyard")

    @tool
    def take(x: dict[str, object]) -> str:
        """Takes anything."""
        return "ok"

    async with open_yard([call("take", x=nest_objects(490)), say("ok"), say("fine")], [take]) as yard:
        assert get_ending(await collect_events(yard.run("go"))).ending == "done"
        assert await yard.ask("still there?") == "fine"


async def test_one_conversation_that_cannot_be_read_keeps_no_other_from_being_taken_up(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"

    @tool(approval="ask", approval_s=0.2)
    def wait() -> None:
        """Asks."""

    async with Yard(tools=[wait], model=Scripted([call("wait")] * 2), store=store) as yard:
        for conversation in ("a-broken", "b-sound"):
            await wait_for_event(yard.run("go", conversation=conversation), RunSuspended)
    spoil(tmp_path / "yard.db", "a-broken")
    async with asyncio.timeout(20):
        async with Yard(tools=[wait], model=Scripted([say("late")]), store=store) as yard:
            assert len(await read_entries(yard, "b-sound")) > 5


def spoil(database: Path, conversation: str) -> None:
    """Make the entries of one conversation unreadable."""
    with sqlite3.connect(database) as connection:
        changed = connection.execute(
            "update batches set entries = cast('not json' as blob) where conversation = ?", (conversation,)
        )
        assert changed.rowcount > 0
    connection.close()


@pytest.mark.parametrize("attempt", range(5))
async def test_an_approval_expires_in_time_however_the_commit_falls(attempt: int, tmp_path: Path) -> None:
    @tool(approval="ask", approval_s=0.1)
    def wait() -> None:
        """Asks."""

    async with open_yard([], [wait], store=f"sqlite:///{tmp_path}/yard.db?synchronous=FULL") as yard:
        assert get_result(await collect_events(yard.call("wait", {}))).outcome == "expired"


async def test_stopping_a_run_in_line_leaves_the_one_in_front_alone() -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        await gate.wait()
        return "waited"

    def script(request: ModelRequest) -> Turn:
        first = request.history[0]
        asks = isinstance(first, UserMessage) and first.text == "one" and len(request.history) == 1
        return call("wait") if asks else say("ok")

    async with open_yard(script, [wait]) as yard:
        first, second = yard.run("one", conversation="c"), yard.run("two", conversation="c")
        running = asyncio.create_task(collect_events(first))
        await wait_for_event(yard.run("x", conversation="other"), RunQueued)
        await wait_for_event(second, RunQueued)
        await second.stop()
        assert get_ending(await collect_events(second)).ending == "cancelled"
        gate.set()
        assert get_ending(await running).ending == "done"
        with pytest.raises(Refused, match="has ended or does not exist"):
            await second.stop()
        assert [item.text for item in await yard.history("c") if isinstance(item, UserMessage)] == ["one"]


async def test_a_clean_close_keeps_every_result_that_was_reached(tmp_path: Path) -> None:
    async def once(store: str) -> list[str]:
        release = asyncio.Event()

        @tool
        async def work(name: str) -> str:
            """Ends while the yard closes."""
            await release.wait()
            return name

        async with Yard(
            tools=[work], model=Scripted([together(*(call("work", name=n) for n in "ab"))]), store=store
        ) as yard:
            run = yard.run("go", conversation="c")
            started = 0
            async for event in run:
                started += isinstance(event, CallStarted)
                if started == 2:
                    break
            asyncio.get_running_loop().call_later(0.01, release.set)
        async with Yard(tools=[work], model=Scripted([say("ok")]), store=store) as yard:
            await read_entries(yard, "c")
            return [item.content for item in await yard.history("c") if isinstance(item, Result)]

    for number in range(8):
        assert (await asyncio.wait_for(once(f"sqlite:///{tmp_path}/{number}.db"), 20)) == ["a", "b"]


def user(words: str, item_id: str = "u1") -> UserMessage:
    return UserMessage(id=item_id, at=0.0, parts=(TextPart(text=words),))


CALL = Call(id="c1", at=0.0, tool="panic", arguments={})
RESULT = Result(id="c1.result", at=0.0, call_id="c1", tool="panic", outcome="ok", content="x")


@pytest.mark.parametrize("input", [(CALL, user("x")), (CALL, CALL), (RESULT,), (RESULT, CALL), (user("x"), user("y"))])
async def test_input_that_would_brick_a_conversation_is_refused(input: tuple[Item, ...]) -> None:
    async with open_yard([say("fine")], [panic]) as yard:
        with pytest.raises(Invalid, match="no model would take this history"):
            await yard.ask(input, conversation="c")
        assert await yard.ask("fine?", conversation="c") == "fine"


async def test_a_message_that_is_sent_again_is_refused_and_not_said_twice() -> None:
    async with open_yard([say("one"), say("two")]) as yard:
        assert await yard.ask(user("hello"), conversation="c") == "one"
        with pytest.raises(Refused, match="u1 is in this conversation already"):
            await yard.ask(user("hello"), conversation="c")
        assert await yard.ask("go on", conversation="c") == "two"


async def test_a_model_that_uses_an_id_twice_fails_its_turn_and_the_next_message_works() -> None:
    def twice(request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        async def events() -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            yield TurnEnded(items=(CALL, CALL), finish="calls")

        return events()

    class DuplicateIdModel:
        stream = staticmethod(twice)

        async def close(self) -> None: ...

    async with asyncio.timeout(20), Yard(tools=[panic], model=DuplicateIdModel()) as yard:
        events = await collect_events(yard.run("go", conversation="c"))
        assert get_ending(events).ending == "failed" and "used already" in get_ending(events).detail
        assert not await find_history_faults(yard, "c")


async def test_a_call_that_needs_approval_by_the_time_it_runs_asks_for_it() -> None:
    strict: list[bool] = []

    def now_strict(question: PolicyRequest) -> Verdict | None:
        return Verdict("ask", "since today") if strict and question.tool.name == "pay" else None

    @tool(exclusive=True)
    async def first() -> None:
        """Runs alone; meanwhile the rules change."""
        strict.append(True)

    @tool
    async def pay() -> str:
        """Waits behind the exclusive one."""
        return "paid"

    async with open_yard([together(call("first"), call("pay")), say("ok")], [first, pay], rules=[now_strict]) as yard:
        run = yard.run("go")
        suspended, _ = await wait_for_event(run, RunSuspended)
        assert len(suspended.waiting_for) == 1
        await yard.approve(run.conversation, suspended.waiting_for[0])
        events = await collect_events(run)
        assert [result.outcome for result in get_results(events)] == ["ok", "ok"]
        assert [event.verdict for event in events if isinstance(event, CallJudged)] == ["allow", "ask"]


class Stubborn:
    """A model that lets go late and then answers all the same; and after that as told."""

    def __init__(self) -> None:
        self.turns = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        self.turns += 1
        text = f"answer {self.turns}"
        if self.turns == 1:
            yield TextAppended(turn=request.turn, offset=0, text="x")
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        yield TurnEnded(items=(ModelText(id=request.clock.new_id("item"), at=0.0, text=text),), finish="stop")

    async def close(self) -> None: ...


async def test_the_late_answer_of_a_stopped_turn_is_nobodys_answer() -> None:
    async with asyncio.timeout(20), Yard(model=Stubborn()) as yard:
        run = yard.run("one", conversation="c")
        await wait_for_event(run, TextAppended)
        await run.stop()
        assert get_ending(await collect_events(run)).ending == "cancelled"
        assert await yard.ask("two", conversation="c") == "answer 2"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), Panic(), SystemExit(1)])
async def test_whatever_a_model_raises_fails_its_run_and_only_that(error: BaseException) -> None:
    def script(request: ModelRequest) -> Turn:
        first = request.history[0]
        if isinstance(first, UserMessage) and first.text == "bad":
            raise error
        return say("fine")

    async with open_yard(script) as yard:
        end = get_ending(await collect_events(yard.run("bad")))
        assert end.ending == "failed" and type(error).__name__ in end.detail
        assert await yard.ask("good") == "fine"


async def test_a_model_that_pauses_for_ever_meets_the_limit_of_turns() -> None:
    class Pausing:
        turns = 0

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            Pausing.turns += 1
            yield TurnEnded(items=(), finish="paused")

        async def close(self) -> None: ...

    async with asyncio.timeout(20), Yard(model=Pausing(), limits=Limits(turns_per_request=5)) as yard:
        end = get_ending(await collect_events(yard.run("go")))
        assert (end.ending, end.detail, Pausing.turns) == ("limit", "turns_per_request", 5)


async def test_a_stranger_may_neither_start_nor_stop_nor_change_anything() -> None:
    ann, eve = Caller(user="ann", tenant="t1"), Caller(user="eve", tenant="t2")
    async with open_yard([say("hi")]) as yard:
        assert await yard.ask("hello", caller=ann, conversation="c") == "hi"
        with pytest.raises(Refused, match="is not 'eve''s"):
            await yard.ask("what did she say?", caller=eve, conversation="c")
        with pytest.raises(Refused, match="is not 'eve''s"):
            await yard.change("c", SettingsChange(system_prompt="be rude"), caller=eve)
        with pytest.raises(Refused, match="may not stop"):
            await yard.stop("c", caller=eve)


async def test_a_change_of_settings_holds_from_the_next_run_on_but_a_disabled_tool_is_disabled_at_once() -> None:
    requests: list[ModelRequest] = []

    @tool
    async def change(context: Context) -> None:
        """Somebody changes the settings meanwhile."""
        await yards[0].change(context.conversation, SettingsChange(system_prompt="new", tools=frozenset({"change"})))

    @tool
    def other() -> None:
        """Disabled in the middle."""

    yards: list[Yard] = []

    def script(request: ModelRequest) -> Turn:
        requests.append(request)
        return call("change") if len(requests) == 1 else say("ok")

    async with open_yard(script, [change, other]) as yard:
        yards.append(yard)
        for message in ("one", "two"):
            await yard.ask(message, conversation="c", settings=Settings(system_prompt="old"))
        assert [request.system for request in requests] == ["old", "old", "new"]
        assert [len(request.offer.tools) for request in requests] == [2, 1, 1]


async def test_time_that_nobody_drove_a_run_is_not_its_own(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/yard.db"

    @tool(idempotent=True)
    async def hang() -> None:
        """Hangs in the first process."""
        if not again:
            await asyncio.Event().wait()

    again: list[bool] = []
    limits = Limits(run_seconds=0.5)
    async with Yard(tools=[hang], model=Scripted([call("hang")]), store=store, grace_s=0, limits=limits) as yard:
        await wait_for_event(yard.run("go", conversation="c"), CallStarted)
    age(tmp_path / "yard.db", 3600)
    again.append(True)
    async with asyncio.timeout(20):
        async with Yard(tools=[hang], model=Scripted([say("done")]), store=store, limits=limits) as yard:
            last = (await read_entries(yard, "c"))[-1]
            assert getattr(last.event, "ending", "") == "done", last


def age(database: Path, seconds: float) -> None:
    """Make everything in the log so much older."""
    with sqlite3.connect(database) as connection:
        for number, body in connection.execute("select rowid, entries from batches").fetchall():
            older = re.sub(r'"at":([0-9.]+)', lambda match: f'"at":{float(match[1]) - seconds}', body.decode())
            connection.execute("update batches set entries = ? where rowid = ?", (older.encode(), number))
    connection.close()


async def test_text_that_the_time_limit_cut_off_is_followed_by_the_limits_message() -> None:
    class CutOffModel:
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
            yield TextAppended(turn=request.turn, offset=0, text="The answ")
            await asyncio.Event().wait()
            yield TurnEnded(items=(), finish="stop")

        async def close(self) -> None: ...

    async with asyncio.timeout(20), Yard(model=CutOffModel(), limits=Limits(run_seconds=0.05)) as yard:
        events = await collect_events(yard.run("go"))
        assert join_text(events) == "The answ"
        assert get_ending(events).ending == "limit" and get_ending(events).message is not None


async def test_reading_on_in_a_large_result_loses_no_character() -> None:
    full_text = "高筋面粉É" * 8000

    @tool
    def export() -> str:
        """A lot of Chinese."""
        return full_text

    pieces: list[str] = []

    def script(request: ModelRequest) -> Turn:
        tool_results = [item for item in request.history if isinstance(item, Result)]
        if not tool_results:
            return call("export")
        if len(tool_results) == 1:
            return call("read_result", handle=tool_results[0].handle, pattern="粉é")
        content: dict[str, object] = msgspec.json.decode(tool_results[-1].content)
        if len(tool_results) == 2:
            assert content["found"] == 1000
            return call("read_result", handle=tool_results[0].handle, length=11_999)
        pieces.append(str(content["text"]))
        offset = content.get("next_offset")
        return call("read_result", handle=tool_results[0].handle, offset=offset, length=11_999) if offset else say("ok")

    async with open_yard(script, [export]) as yard:
        await yard.ask("go")
        assert "".join(pieces) == full_text


async def test_a_conversation_that_is_just_opened_is_not_let_go_of_to_make_room() -> None:
    async with open_yard([say("hi")]) as yard:
        readers = [await yard.follow(f"busy-{number}") for number in range(MAX_IDLE)]
        async with asyncio.timeout(5):
            assert await yard.ask("hello") == "hi"
        for reader in readers:
            reader.detach()
