"""Sessions over HTTP and over stdio: shared by all, or one for each caller; lost, and found again."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp_types import METHOD_NOT_FOUND

from support import TEST_TIMEOUT_S, collect_events, get_result, open_yard, wait_until
from toolyard import Caller, Yard
from toolyard.core.items import Result
from toolyard.core.tools.mcp_servers import OAuth, ServerSpec
from toolyard.surfaces.mcp.client import ClientState
from toolyard.surfaces.mcp.notifications import NotificationFeeds
from toolyard.testing import Scripted
from toolyard.venues.mcp.server import find_least_needed
from venues.mcp.modern import FORGETFUL, GUARDED, HttpServerProcess, over_http, over_stdio, wait_until_settled
from venues.mcp.plain import PlainServer

ANN, BOB = Caller(user="ann", tenant="acme"), Caller(user="bob", tenant="acme")
OTHER_ANN = Caller(user="ann", tenant="other")
COMPLETE: dict[str, object] = {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}
ERAS = [("auto", "2026-07-28"), ("2025-11-25", "2025-11-25")]


@asynccontextmanager
async def open_http_yard(**more: object) -> AsyncGenerator[tuple[Yard, HttpServerProcess], None]:
    """Open a yard with a server that is reached over HTTP."""
    async with (
        asyncio.timeout(TEST_TIMEOUT_S * 2),
        over_http() as server,
        Yard(model=Scripted([]), servers={"http": server.spec(**more)}) as yard,
    ):
        await wait_until_settled(yard)
        yield yard, server


async def call_whoami(yard: Yard, caller: Caller) -> str:
    return get_result(await collect_events(yard.call("whoami", {}, caller=caller))).content


@pytest.mark.parametrize(("protocol", "spoken"), ERAS)
async def test_over_http_both_eras_are_spoken_with_our_headers(protocol: str, spoken: str) -> None:
    async with open_http_yard(protocol=protocol, headers={"x-user-name": "shop"}) as (yard, _):
        assert yard.servers.cards()[0].protocol == spoken
        assert (await call_whoami(yard, ANN)).startswith("shop at ")


@pytest.mark.parametrize(("protocol", "_"), ERAS)
async def test_a_server_over_http_that_was_started_anew_is_found_again(protocol: str, _: str) -> None:
    """In the old era it does not know our session any more: it did nothing, and is asked again."""
    async with open_http_yard(protocol=protocol) as (yard, server):
        before = await call_whoami(yard, ANN)
        server.stop()
        await server.start()
        after = await call_whoami(yard, ANN)
        assert after.startswith(" at ") and after != before


@pytest.mark.parametrize(("protocol", "_"), ERAS)
async def test_a_method_that_a_server_does_not_have_ends_nobodys_session(protocol: str, _: str) -> None:
    async with open_http_yard(protocol=protocol) as (yard, _server):
        refused = await yard.servers.ask("http", ANN, "completion/complete", COMPLETE)
        assert getattr(refused, "code", 0) == METHOD_NOT_FOUND, refused
        await call_whoami(yard, BOB)
        assert yard.servers.get_connection("http", BOB).describe().sessions == 1


@asynccontextmanager
async def open_forgetful_yard(*args: str) -> AsyncGenerator[Yard, None]:
    async with (
        asyncio.timeout(TEST_TIMEOUT_S),
        over_http(FORGETFUL, *args) as server,
        Yard(model=Scripted([]), servers={"http": server.spec()}) as yard,
    ):
        await wait_until_settled(yard)
        yield yard


async def call_tool(yard: Yard, name: str, **arguments: object) -> Result:
    return get_result(await collect_events(yard.call(name, arguments, caller=ANN)))


def count_sessions(yard: Yard) -> int:
    return yard.servers.get_connection("http", ANN).describe().sessions


async def test_calls_over_a_session_that_the_server_answers_with_400_are_repeated_over_one_new_session() -> None:
    """The server refuses the calls as it refuses a ping, so it has run none of them, and each is run once."""
    async with open_forgetful_yard() as yard:
        await call_tool(yard, "forget")
        results = await asyncio.gather(*(call_tool(yard, "count") for _ in range(5)))
        counts = sorted(result.content for result in results)
        assert counts == [f"count was called {number} times over 1 sessions" for number in range(1, 6)]
        assert count_sessions(yard) == 2


@pytest.mark.parametrize("args", [(), ("no-ping",)])
@pytest.mark.parametrize("status", [400, 404])
async def test_a_refusal_of_one_calls_arguments_ends_nobodys_session(status: int, args: tuple[str, ...]) -> None:
    async with open_forgetful_yard(*args) as yard:
        waiting = asyncio.create_task(call_tool(yard, "wait"))
        await wait_until(lambda: yard.servers.get_connection("http", ANN).describe().in_flight == 1)
        rejected = await call_tool(yard, "reject", status=status)
        assert rejected.error is not None and rejected.error.error == "Bad Request: no such shelf"
        await call_tool(yard, "release")
        assert (await waiting).content == "wait was called 1 times over 1 sessions"
        assert count_sessions(yard) == 1


async def test_a_call_that_was_refused_otherwise_than_the_lost_session_is_not_repeated() -> None:
    """The server may have run it before it forgot the session: its refusal is the answer."""
    async with open_forgetful_yard() as yard:
        rejected = await call_tool(yard, "reject_and_forget")
        assert rejected.error is not None and rejected.error.error == "Bad Request: no such shelf"
        assert (await call_tool(yard, "count")).content == "count was called 1 times over 1 sessions"
        assert count_sessions(yard) == 2


async def test_a_server_over_http_that_is_away_is_not_available_and_comes_back() -> None:
    async with open_http_yard() as (yard, server):
        server.stop()
        calls = asyncio.create_task(call_whoami(yard, ANN))
        await wait_until(lambda: yard.servers.cards()[0].status == "failed")
        assert "not available" in await calls
        await server.start()
        assert (await yard.servers.act("http", "start")).status == "running"
        assert "not available" not in await call_whoami(yard, ANN)


@pytest.mark.parametrize(("secret", "right"), [("s3cret", True), ("wrong", False)])
async def test_a_server_that_wants_a_token_gets_one_for_our_credentials(secret: str, right: bool) -> None:
    async with asyncio.timeout(TEST_TIMEOUT_S * 2), over_http(GUARDED) as server:
        issuer = f"http://127.0.0.1:{server.port}"
        oauth = OAuth(issuer=issuer, client_id="shop", client_secret=secret, scope="stock")
        spec = server.spec(oauth=oauth, trust=True)
        async with Yard(model=Scripted([]), servers={"guarded": spec}) as yard:
            await wait_until_settled(yard)
            card = yard.servers.cards()[0]
            assert card.status in (("running",) if right else ("restarting", "failed")), card
            if right:
                assert get_result(await collect_events(yard.call("stock", {}))).content == "seven"


async def call_look(yard: Yard, caller: Caller) -> tuple[str, str]:
    """The process that answered, and for whom it thinks it did."""
    words = get_result(await collect_events(yard.call("look", {}, caller=caller))).content.split()
    return words[3], words[5]


async def test_callers_of_one_server_share_its_session(tmp_path: Path) -> None:
    async with open_yard([], servers={"shared": PlainServer(tmp_path).spec}) as yard:
        assert await call_look(yard, ANN) == await call_look(yard, BOB)
        assert yard.servers.cards()[0].sessions == 1


@pytest.mark.proves("000.division-scoped")
async def test_a_server_is_told_for_which_division_each_call_is(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path)
    async with open_yard([], servers={"shared": plain.spec}) as yard:
        await call_look(yard, Caller(user="ann", division="clothing"))
        await call_look(yard, ANN)
        assert plain.read_notes("for") == ["clothing", "all"]


async def test_a_session_of_one_caller_is_never_anothers(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, auth="caller", env={"USER_NAME": "{user}@{tenant}"})
    async with open_yard([], servers={"own": plain.spec}) as yard:
        answers = await asyncio.gather(*(call_look(yard, caller) for caller in (ANN, BOB, OTHER_ANN, ANN)))
        assert [name for _, name in answers] == ["ann@acme", "bob@acme", "ann@other", "ann@acme"]
        assert answers[0] == answers[3] and len({process for process, _ in answers}) == 3
        await wait_until(lambda: len(plain.alive) == 3)  # that of nobody, which only listed, is no more
        assert yard.servers.cards()[0].sessions == 3
    assert plain.alive == []


async def test_a_callers_name_is_taken_as_it_is(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, auth="caller", env={"USER_NAME": "{user}@{tenant}"})
    async with open_yard([], servers={"own": plain.spec}) as yard:
        assert (await call_look(yard, Caller(user="{tenant}", tenant="ann")))[1] == "{tenant}@ann"


async def test_a_tool_that_one_caller_does_not_get_stays_for_the_others(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, "personal", auth="caller", env={"USER_NAME": "{user}"}, trust=True)
    async with open_yard([], servers={"own": plain.spec}) as yard:
        assert (await call_look(yard, BOB))[1] == "bob"
        assert "add" in yard.tool_names
        assert get_result(await collect_events(yard.call("add", {}, caller=ANN))).outcome == "ok"


async def test_of_many_callers_sessions_one_with_a_call_on_its_way_goes_last(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, auth="caller", env={"USER_NAME": "{user}"})
    async with open_yard([], servers={"own": plain.spec}) as yard:
        slow = asyncio.create_task(collect_events(yard.call("slow_look", {}, caller=ANN)))
        await wait_until(lambda: plain.read_notes("began") == ["slow_look"])
        await call_look(yard, BOB)
        links = {(who.user,): yard.servers.get_connection("own", who) for who in (ANN, BOB)}
        assert find_least_needed(links) == ("bob",)
        slow.cancel()
        await asyncio.wait([slow])


async def test_a_callers_session_that_sleeps_makes_room(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, auth="caller", env={"USER_NAME": "{user}"}, idle_s=0.2)
    async with open_yard([], servers={"own": plain.spec}) as yard:
        await call_look(yard, ANN)
        await wait_until(lambda: plain.alive == [])
        assert (await call_look(yard, ANN))[1] == "ann"


async def test_a_server_that_takes_longer_to_start_than_it_may_idle_is_used_all_the_same(tmp_path: Path) -> None:
    plain = PlainServer(tmp_path, idle_s=0.001)  # no process starts as fast
    async with open_yard([], servers={"late": plain.spec}) as yard:
        for times in (1, 2, 3):
            await wait_until(lambda: yard.servers.cards()[0].status == "idle")
            assert (await call_look(yard, ANN))[1] == "all"
            assert len(plain.processes) == times + 1


async def test_a_child_works_in_the_folder_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    plain = PlainServer(tmp_path, cwd=str(tmp_path / "work"))
    other = ServerSpec(command=sys.executable, args=plain.spec.args, cwd=str(tmp_path / "nowhere"))
    async with open_yard([], servers={"plain": plain.spec, "other": other}) as yard:
        await wait_until(lambda: plain.read_notes("folder") == [str(tmp_path / "work")])
        await wait_until(lambda: "nowhere" in yard.servers.cards()[1].error)


async def test_a_tool_that_comes_later_is_listed_and_waits_to_be_accepted() -> None:
    async with open_yard([], servers={"modern": over_stdio(trust=True)}) as yard:
        await collect_events(yard.call("more", {}))
        await wait_until(lambda: any(tool.name == "extra" for tool in yard.servers.cards()[0].tools))
        assert "extra" not in yard.tool_names
        await yard.servers.act("modern", "accept", ["extra"])
        assert "extra" in yard.tool_names
        assert get_result(await collect_events(yard.call("extra", {}))).content == "extra"


async def test_any_request_passes_through_as_it_came() -> None:
    """What resources and prompts are served by."""
    notifications: list[tuple[str, str]] = []
    async with open_yard([], servers={"modern": over_stdio(trust=True)}) as yard:
        manager = yard.servers
        manager.subscribe(lambda server, method, params, caller: notifications.append((server, method)))
        answer = await manager.ask("modern", ANN, "tools/list", {})
        assert getattr(answer, "raw", {})["tools"][0]["name"] == "greet"
        rejected = await manager.ask("modern", ANN, "prompts/get", {"name": "none"})
        assert getattr(rejected, "code", 0) != 0
        assert "tools" in manager.get_connection("modern", ANN).describe().capabilities
        await collect_events(yard.call("more", {}))
        await wait_until(lambda: ("modern", "notifications/tools/list_changed") in notifications)


async def test_what_a_callers_own_session_says_is_told_to_that_caller_alone(tmp_path: Path) -> None:
    lists = frozenset({"promptsListChanged"})
    async with open_yard(
        [], servers={"own": PlainServer(tmp_path, "tells", auth="caller", env={"USER_NAME": "{user}"}).spec}
    ) as yard:
        notices = NotificationFeeds(yard.service)
        feeds = [notices.open(caller, lists, ClientState()) for caller in (ANN, BOB)]
        await call_look(yard, ANN)
        await wait_until(lambda: feeds[0].waiting > 0)
        assert [feed.waiting for feed in feeds] == [1, 0]
