"""Real servers, driven by a scripted model from end to end. None of them is ours."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ports import reserve_port
from real_servers import build_npm_server, build_python_server
from support import collect_events, get_ending, get_result, get_results, join_text, list_asked_calls, open_yard
from toolyard.core.conversation.events import CallJudged, Event
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.testing import Script, call, say, together
from venues.mcp.modern import run_http_server, wait_until_settled


async def drive(script: Script, **servers: ServerSpec) -> list[Event]:
    """A run to its end; whatever asks is approved."""
    events: list[Event] = []
    async with open_yard(script, servers=servers) as yard:
        run = yard.run("go")
        async for event in run:
            events.append(event)
            if isinstance(event, CallJudged) and event.verdict == "ask":
                await yard.approve(run.conversation, event.call_id)
    return events


@pytest.mark.proves("002.mcp-calls-intercepted", "002.mcp-arguments-passed", "000.one-server")
async def test_everything() -> None:
    events = await drive(
        [call("echo", message="hello there"), say("it said so")], everything=build_npm_server("everything")
    )
    assert get_result(events).content == "Echo: hello there"
    assert (get_ending(events).ending, join_text(events)) == ("done", "it said so")


async def test_everything_over_http_is_found_again_after_its_restart() -> None:
    """It answers a session that it does not know with 400, where MCP has 404."""
    command = build_npm_server("everything", "streamableHttp")
    with reserve_port() as port:
        async with (
            run_http_server([command.command, *command.args], port) as server,
            open_yard([], servers={"everything": server.spec()}) as yard,
        ):
            await wait_until_settled(yard)
            server.stop()
            await server.start()
            events = await collect_events(yard.call("echo", {"message": "again"}))
            assert get_result(events).content == "Echo: again"
            assert yard.servers.cards()[0].restarts == 1


async def test_filesystem(tmp_path: Path) -> None:
    script = [call("write_file", path=str(tmp_path / "a.txt"), content="milk"), say("written")]
    events = await drive(script, files=build_npm_server("filesystem", str(tmp_path), trust=True))
    assert list_asked_calls(events), "a tool that says it destroys asks, also on a server that is trusted"
    assert get_result(events).outcome == "ok", get_result(events)
    assert (tmp_path / "a.txt").read_text() == "milk"


async def test_memory(tmp_path: Path) -> None:
    entity = {"name": "flour", "entityType": "grocery", "observations": ["is white"]}
    events = await drive(
        [call("create_entities", entities=[entity]), call("read_graph"), say("kept")],
        memory=build_npm_server("memory", trust=True, env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}),
    )
    assert [result.outcome for result in get_results(events)] == ["ok", "ok"]
    assert json.loads(get_results(events)[1].content)["entities"] == [entity]


async def test_time() -> None:
    script = [
        call("convert_time", source_timezone="Europe/Berlin", time="12:00", target_timezone="Asia/Tokyo"),
        say("evening"),
    ]
    events = await drive(script, time=build_python_server("time", trust=True))
    assert "T19:00:00+09:00" in get_result(events).content or "T20:00:00+09:00" in get_result(events).content


async def test_git(tmp_path: Path) -> None:
    run(["git", "init", "-q"], tmp_path)
    (tmp_path / "a.txt").write_text("milk")
    events = await drive(
        [call("git_status", repo_path=str(tmp_path)), say("one file")],
        git=build_python_server("git", "--repository", str(tmp_path), trust=True),
    )
    assert "a.txt" in get_result(events).content


@pytest.mark.proves("000.many-servers-routed", "002.mcp-every-call-run")
async def test_calls_of_one_turn_go_each_to_its_own_server() -> None:
    both = [together(call("echo", message="one"), call("get_current_time", timezone="Europe/Berlin")), say("both")]
    events = await drive(
        both, everything=build_npm_server("everything", trust=True), time=build_python_server("time", trust=True)
    )
    contents = {result.tool: result.content for result in get_results(events)}  # in the order in which they ended
    assert contents["echo"] == "Echo: one" and "Europe/Berlin" in contents["get_current_time"]
    assert get_ending(events).ending == "done"


def run(command: Sequence[str], where: Path) -> None:
    subprocess.run(command, cwd=where, check=True, capture_output=True, timeout=20)
