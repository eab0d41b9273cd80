"""`toolyard serve` as a process: what it says, how it stops, what it refuses and what it takes up again."""

import os
import signal
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import cast
from urllib.error import URLError

import pytest

from cli.process import (
    ServerProcess,
    fetch_list,
    join_text,
    open_stream,
    parse_curl,
    read_until,
    request_json,
    run_toolyard,
    start_server,
)

HERE = Path(__file__).parents[1]
ROOT = HERE.parents[1]
SLOW = str(HERE / "slow_tools.py")
HOUSEHOLD = str(ROOT / "examples" / "household" / "toolyard.toml")
PROMPT = {"prompt": "add milk to groceries"}
MCP_META: dict[str, object] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
COLLECTING = """
import gc
from toolyard import tool

@tool
def collects_after() -> int:
    "How many new objects there are when garbage is looked for; 0 means never."
    return gc.get_threshold()[0] if gc.isenabled() else 0
"""


def make_pipes(folder: Path) -> str:
    for name in ("began", "go_on"):
        os.mkfifo(folder / name)
    return str(folder)


def wait_for_start(folder: Path) -> str:
    return (folder / "began").read_text()


def resume_tool(folder: Path) -> None:
    (folder / "go_on").write_text("now")


def fetch_connection_header(connection: HTTPConnection) -> str | None:
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.getheader("connection")


def read_answer(server: ServerProcess, conversation: str) -> str:
    """What the model said last, once the run is over."""
    with open_stream(f"{server.url}/conversations/{conversation}/events") as objects:
        done = read_until(objects, type="done", ending="done")
    assert done["conversation_id"] == conversation
    return fetch_list(f"{server.url}/conversations/{conversation}/messages", "messages")[-1]["content"]


def read_entries(objects: Iterator[dict[str, object]], until_type: str) -> list[tuple[object, str, object]]:
    """Number, type and time of the log's entries up to the first of that type; what is fleeting is passed over."""
    read_so_far: list[tuple[object, str, object]] = []
    for stream_object in objects:
        if "seq" in stream_object:
            read_so_far.append(
                (stream_object["seq"], cast(dict[str, str], stream_object["event"])["type"], stream_object["at"])
            )
            if read_so_far[-1][1] == until_type:
                return read_so_far
    raise AssertionError(f"no {until_type} came: {read_so_far}")


def test_garbage_is_collected_again_once_it_has_started(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(COLLECTING)
    params = {"name": "collects_after", "arguments": {}, "_meta": MCP_META}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "collects_after"}
    with start_server(tmp_path, "--store", "memory:", "--tools", str(tools)) as server:
        status, answer = request_json(f"{server.url}/mcp", call, headers=headers)
    assert status == 200
    assert cast(dict[str, list[object]], answer["result"])["content"] == [{"type": "text", "text": "20000"}]


def test_it_says_where_it_is_and_the_line_that_it_prints_works(tmp_path: Path) -> None:
    with start_server(tmp_path, "--config", HOUSEHOLD, HOUSEHOLD_DB=str(tmp_path / "h.db")) as server:
        url, body, headers = parse_curl(server.read_until("curl -N").strip())
        assert url == f"{server.url}/ai/respond"
        with open_stream(url, body, headers) as objects:
            received = list(objects)
        assert received[-1]["type"] == "done" and received[-1]["ending"] == "done"
        assert "Rent" in join_text(received)
        text = "\n".join(server.output_lines)
        assert "toolyard:offline: no language model is configured" in text and "tools    10: budget_scan" in text
        assert (tmp_path / "data" / "toolyard" / "toolyard.db").exists()


def test_without_tools_it_tells_how_to_add_the_first_one(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        server.read_until("toolyard serve --tools ./my_tools.py")
        start = next(number for number, line in enumerate(server.output_lines) if "from toolyard import" in line)
    shown = [line[13:] for line in server.output_lines[start : start + 7] if "and start with" not in line]
    (tmp_path / "my_tools.py").write_text("\n".join(shown))
    done = run_toolyard(tmp_path, "tools", "call", "opening_hours", '{"day": "Sunday"}', "--tools", "./my_tools.py")
    assert (done.code, done.out) == (0, "closed\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_cleanly_when_it_is_told_to(tmp_path: Path, number: int) -> None:
    with start_server(tmp_path) as server:
        assert request_json(f"{server.url}/healthz")[0] == 200
        assert server.stop(number) == 0
        server.read_until("Stopped.")
    assert not (tmp_path / "data" / "toolyard" / "toolyard.db.url").exists()


def test_a_stop_ends_streams_refuses_runs_lets_calls_end_and_the_run_goes_on_at_the_next_start(tmp_path: Path) -> None:
    where = make_pipes(tmp_path)
    with start_server(tmp_path, "--tools", SLOW, PIPES=where) as server:
        with open_stream(f"{server.url}/ai/respond", PROMPT) as objects:
            read_until(objects, type="tool.status", state="started")
            assert wait_for_start(tmp_path) == "milk\n"
            server.process.send_signal(signal.SIGTERM)
            last = list(objects)[-1]
            assert (last["type"], last["error_type"]) == ("error", "unavailable")
            assert "come back" in str(last["error"])
        with pytest.raises(URLError, match="refused"):
            request_json(f"{server.url}/ai/respond", PROMPT)
        resume_tool(tmp_path)
        assert server.wait() == 0
    with start_server(tmp_path, "--tools", SLOW, PIPES=where) as server:
        (only,) = fetch_list(f"{server.url}/conversations", "conversations")
        assert read_answer(server, only["id"]).startswith("Add to groceries: item milk")


def test_on_sigterm_it_first_says_that_it_is_not_ready_and_still_takes_requests(tmp_path: Path) -> None:
    where = make_pipes(tmp_path)
    with start_server(tmp_path, "--tools", SLOW, PIPES=where, TOOLYARD_DRAIN_S="600") as server:
        server.process.send_signal(signal.SIGTERM)
        while request_json(f"{server.url}/readyz")[0] == 200:
            pass
        assert request_json(f"{server.url}/healthz")[0] == 200
        with open_stream(f"{server.url}/ai/respond", PROMPT) as objects:
            read_until(objects, type="tool.status", state="started")
            assert wait_for_start(tmp_path) == "milk\n"
            resume_tool(tmp_path)
            read_until(objects, type="done", ending="done")
        assert server.stop(signal.SIGINT) == 130


def test_while_it_drains_each_connection_ends_with_its_next_response(tmp_path: Path) -> None:
    with start_server(tmp_path, TOOLYARD_DRAIN_S="600") as server:
        connection = HTTPConnection(server.url.removeprefix("http://"))
        kept_open = [fetch_connection_header(connection) for _ in range(2)]
        server.process.send_signal(signal.SIGTERM)
        while request_json(f"{server.url}/readyz")[0] == 200:
            pass
        assert (*kept_open, fetch_connection_header(connection)) == (None, None, "close")
        connection.close()
        assert server.stop(signal.SIGINT) == 130


def test_after_the_drain_new_connections_are_refused_while_runs_may_end(tmp_path: Path) -> None:
    where = make_pipes(tmp_path)
    with start_server(tmp_path, "--tools", SLOW, PIPES=where, TOOLYARD_DRAIN_S="0.1") as server:
        with open_stream(f"{server.url}/ai/respond", PROMPT) as objects:
            assert wait_for_start(tmp_path) == "milk\n"
            server.process.send_signal(signal.SIGTERM)
            assert list(objects)[-1]["error_type"] == "unavailable"
        with pytest.raises(URLError, match="refused"):
            request_json(f"{server.url}/readyz")
        resume_tool(tmp_path)
        assert server.wait() == 0


def test_ctrl_c_does_not_wait_for_load_balancers(tmp_path: Path) -> None:
    with start_server(tmp_path, TOOLYARD_DRAIN_S="600") as server:
        assert server.stop(signal.SIGINT) == 0
        server.read_until("Stopped.")


def test_a_killed_server_takes_its_run_up_again_and_who_comes_back_misses_nothing(tmp_path: Path) -> None:
    where = make_pipes(tmp_path)
    with start_server(tmp_path, "--tools", SLOW, PIPES=where) as server:
        assert request_json(f"{server.url}/conversations", {"title": "groceries"})[0] == 201
        (conversation,) = fetch_list(f"{server.url}/conversations", "conversations")
        path = f"/conversations/{conversation['id']}"
        with (
            open_stream(f"{server.url}{path}/events?format=entries") as entries,
            open_stream(f"{server.url}{path}/chat", {"content": "add milk to groceries"}),
        ):
            before = read_entries(entries, "call.started")
            assert wait_for_start(tmp_path) == "milk\n"
            server.process.kill()
            server.wait()
    with start_server(tmp_path, "--tools", SLOW, PIPES=where) as server:
        assert wait_for_start(tmp_path) == "milk\n"
        resume_tool(tmp_path)
        last = {"last-event-id": str(before[-1][0])}
        with open_stream(f"{server.url}{path}/events?format=entries", headers=last) as entries:
            after = read_entries(entries, "run.ended")
        with open_stream(f"{server.url}{path}/events?format=entries") as entries:
            assert [*before, *after] == read_entries(entries, "run.ended")
        assert [seq for seq, _, _ in (*before, *after)] == list(range(1, len(before) + len(after) + 1))
        assert read_answer(server, conversation["id"]).startswith("Add to groceries: item milk")


def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    where = make_pipes(tmp_path)
    with (
        start_server(tmp_path, "--tools", SLOW, PIPES=where) as server,
        open_stream(f"{server.url}/ai/respond", PROMPT) as objects,
    ):
        read_until(objects, type="tool.status", state="started")
        wait_for_start(tmp_path)
        server.process.send_signal(signal.SIGINT)
        read_until(objects, type="error")
        assert server.stop(signal.SIGINT) == 130


def test_a_second_server_on_the_same_store_is_refused_with_the_owner(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        second = run_toolyard(tmp_path, "serve", "--port", "0")
        assert second.code == 1
        assert f"in use by process {server.process.pid}" in second.errors
        assert second.errors.count("\n") == 1


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_toolyard(tmp_path, "serve", "--port", port, "--store", "memory:")
    assert (done.code, done.out) == (1, "")
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another" in done.errors
    assert done.errors.count("\n") == 1


def test_nobody_else_is_let_in_without_a_key(tmp_path: Path) -> None:
    refused = run_toolyard(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 1
    assert "without a key the server does not listen on 0.0.0.0" in refused.errors
    assert "toolyard keys add" in refused.errors
    secret = run_toolyard(tmp_path, "keys", "add", "me", "--user", "me").out.splitlines()[0]
    with start_server(tmp_path, "--host", "0.0.0.0") as server:
        assert server.url.startswith("http://127.0.0.1:")
        url, body, headers = parse_curl(server.read_until("curl -N").strip(), TOOLYARD_KEY=secret)
        with open_stream(url, body, headers) as objects:
            read_until(objects, type="done", ending="done")
        assert request_json(url, body)[0] == 401


def test_with_an_identity_provider_others_are_let_in_once_they_have_signed_in(tmp_path: Path) -> None:
    oidc = '[oidc]\nissuer = "https://id.example"\nclient_id = "toolyard"\nallow_everybody = true\n'
    (tmp_path / "toolyard.toml").write_text(oidc)
    with start_server(tmp_path, "--host", "0.0.0.0") as server:
        url, body, _ = parse_curl(server.read_until("curl -N").strip(), TOOLYARD_KEY="none")
        assert "callers  those with a key, or who sign in at https://id.example" in "\n".join(server.output_lines)
        assert request_json(url, body)[0] == 401


def test_a_model_without_its_key_is_refused_with_the_variable_to_set(tmp_path: Path) -> None:
    done = run_toolyard(tmp_path, "serve", "--port", "0", "--store", "memory:", "--model", "openai:gpt-4o-mini")
    assert (done.code, done.out) == (1, "")
    assert done.errors == "toolyard: 'openai:gpt-4o-mini' needs a key: set the environment variable OPENAI_API_KEY\n"
