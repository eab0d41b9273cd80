"""`toolyard serve` with MCP servers that are slow to start: the port is open first, and calls wait for their server."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from cli.process import open_stream, request_json, start_server
from venues.mcp.plain import PlainServer

NO_HURRY = """
from toolyard.venues.mcp import manager
manager.START_S = 3600.0
from toolyard.cli import main
main()
"""
"""The command, with a start that would wait for its servers for longer than any test does."""


def write_config(folder: Path, **servers: PlainServer) -> None:
    lines = [
        f'[servers.{name}]\ncommand = "{sys.executable}"\nargs = {list(plain.spec.args)}\ntrust = {plain.spec.trust}'
        for name, plain in servers.items()
    ]
    (folder / "toolyard.toml").write_text("\n".join(lines).replace("True", "true").replace("False", "false"))


def make_server(folder: Path, name: str, *tricks: str, trust: bool) -> PlainServer:
    (folder / name).mkdir()
    return PlainServer(folder / name, *tricks, trust=trust)


def read_entries(objects: Iterator[dict[str, object]], until_type: str) -> dict[str, float]:
    """Return when the entries of a log up to the first of this type were written, by type."""
    times: dict[str, float] = {}
    for stream_object in objects:
        if "seq" in stream_object:
            entry_type = cast(dict[str, str], stream_object["event"])["type"]
            times[entry_type] = cast(float, stream_object["at"])
            if entry_type == until_type:
                return times
    raise AssertionError(f"no {until_type} came: {times}")


def test_the_port_is_open_and_ready_while_a_server_hangs_in_its_handshake(tmp_path: Path) -> None:
    plain = make_server(tmp_path, "plain", "gated", trust=True)
    write_config(tmp_path, plain=plain)
    with start_server(tmp_path, program=("-c", NO_HURRY)) as server, ThreadPoolExecutor(1) as pool:
        assert "plain still starting" in server.read_until("  servers ")
        assert request_json(f"{server.url}/readyz") == (200, {"status": "ready", "ok": True})
        assert request_json(f"{server.url}/servers/plain")[1]["server"]["status"] == "starting"  # pyright: ignore[reportIndexIssue]
        waiting = pool.submit(request_json, f"{server.url}/servers/plain/tools/call", {"tool_name": "add"})
        assert request_json(f"{server.url}/healthz")[0] == 200
        plain.open_gate()
        status, answer = waiting.result()
        assert (status, str(answer["result"])[:14]) == (200, "add of process")


def test_an_approval_from_before_a_kill_waits_for_the_server_that_starts_again(tmp_path: Path) -> None:
    slow, quick = make_server(tmp_path, "slow", "gated", trust=False), make_server(tmp_path, "quick", trust=True)
    write_config(tmp_path, slow=slow, quick=quick)
    slow.open_gate()
    with start_server(tmp_path) as server:
        status, asked = request_json(f"{server.url}/servers/slow/tools/call", {"tool_name": "add"})
        assert status == 202, asked
        server.process.kill()
        server.wait()
    slow.close_gate()
    with start_server(tmp_path) as server:
        path = f"{server.url}/conversations/{asked['conversation_id']}"
        assert request_json(f"{path}/calls/{asked['call_id']}/approve", {})[0] == 200
        status, other = request_json(f"{server.url}/servers/quick/tools/call", {"tool_name": "look"})
        assert status == 200, other
        with open_stream(f"{server.url}/conversations/{other['conversation_id']}/events?format=entries") as entries:
            other_times = read_entries(entries, "run.ended")
        slow.open_gate()
        with open_stream(f"{path}/events?format=entries") as entries:
            times = read_entries(entries, "run.ended")
        assert times["call.approved"] < other_times["run.ended"] < times["call.started"]
        assert slow.read_notes("ended") == ["add"]
