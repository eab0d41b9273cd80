"""`toolyard mcp`: a host's child process, with its own yard or before a running server."""

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.process import PROGRAM, TIMEOUT_S, build_environment, request_json, run_toolyard, start_server
from forked_python import ForkedPython

Json = Any
ODD = Path(__file__).parents[2] / "surfaces" / "unusual_mcp_server.py"
META_PREFIX = "io.modelcontextprotocol/"
TOOLS = """
import os
from toolyard import tool

@tool
def shout(words: str) -> str:
    "Say it loudly."
    print("this goes to standard error")
    os.write(1, b"and so does this")
    return words.upper()

@tool(roles={"staff"})
def count() -> int:
    "For the staff."
    return 3

@tool(approval="ask")
def empty() -> str:
    "Empty the shelf."
    return "empty"
"""


class McpProcess:
    """A host's end of the pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._ids = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send_message(self, **message: Json) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def read_message(self) -> Json:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: Json = None) -> Json:
        self._ids += 1
        self.send_message(id=self._ids, method=method, params=params or {})
        reply = self.read_message()
        assert reply["id"] == self._ids, reply
        return reply

    def ask_modern(self, method: str, params: Json = None, **capabilities: object) -> Json:
        meta = {f"{META_PREFIX}protocolVersion": "2026-07-28", f"{META_PREFIX}clientCapabilities": capabilities}
        return self.ask(method, {**(params or {}), "_meta": meta})

    def initialize(self, **capabilities: object) -> Json:
        params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        reply = self.ask("initialize", {**params, "clientInfo": {"name": "host", "version": "1"}})
        self.send_message(method="notifications/initialized")
        return reply


@contextmanager
def start_mcp(folder: Path, *arguments: str) -> Generator[McpProcess]:
    (folder / "my_tools.py").write_text(TOOLS)
    (folder / "toolyard.toml").write_text('tools = ["./my_tools.py"]\n')
    process = ForkedPython(
        [*PROGRAM, "mcp", *arguments],
        cwd=folder,
        env=build_environment(folder),
        stdin=-1,
        stdout=-1,
        stderr=subprocess.DEVNULL,
    )
    watchdog = threading.Timer(2 * TIMEOUT_S, process.kill)  # whoever waits for a line then reads the end
    watchdog.start()
    try:
        with process:
            yield McpProcess(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(TIMEOUT_S) == 0
    finally:
        watchdog.cancel()
        process.kill()


@pytest.fixture(params=["its own yard", "a running server"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[McpProcess]:
    """The same, whether the store is free or a server has it."""
    if request.param == "its own yard":
        with start_mcp(tmp_path) as process:
            yield process
        return
    (tmp_path / "my_tools.py").write_text(TOOLS)
    with start_server(tmp_path, "--tools", "./my_tools.py"), start_mcp(tmp_path) as process:
        yield process


def test_a_legacy_host_lists_calls_and_answers_on_the_same_pipe(host: McpProcess) -> None:
    assert host.initialize(elicitation={})["result"]["protocolVersion"] == "2025-11-25"
    assert {tool["name"] for tool in host.ask("tools/list")["result"]["tools"]} == {"shout", "empty"}
    called = host.ask("tools/call", {"name": "shout", "arguments": {"words": "hello"}})
    assert called["result"]["content"] == [{"type": "text", "text": "HELLO"}]
    host.send_message(id="c", method="tools/call", params={"name": "empty", "arguments": {}})
    question = host.read_message()
    assert question["method"] == "elicitation/create"
    host.send_message(id=question["id"], result={"action": "accept", "content": {"approve": True}})
    assert host.read_message()["result"]["content"][0]["text"] == "empty"


def test_a_modern_host_needs_no_session(host: McpProcess) -> None:
    assert host.ask_modern("server/discover")["result"]["supportedVersions"] == ["2026-07-28"]
    called = host.ask_modern("tools/call", {"name": "shout", "arguments": {"words": "hello"}})
    assert called["result"]["content"] == [{"type": "text", "text": "HELLO"}]
    assert host.ask_modern("tools/call", {"name": "none"})["error"]["code"] == -32602
    input_request = host.ask_modern("tools/call", {"name": "empty"}, elicitation={})["result"]
    yes = {name: {"action": "accept", "content": {"approve": True}} for name in input_request["inputRequests"]}
    again = {"name": "empty", "requestState": input_request["requestState"], "inputResponses": yes}
    assert host.ask_modern("tools/call", again, elicitation={})["result"]["content"][0]["text"] == "empty"


def test_a_host_before_a_running_server_hears_of_new_tools(tmp_path: Path) -> None:
    with start_server(tmp_path) as server, start_mcp(tmp_path) as host:
        host.initialize()
        assert host.ask("tools/list")["result"]["tools"] == []
        config = {"command": sys.executable, "args": [str(ODD)], "trust": True}
        status, _ = request_json(f"{server.url}/servers", {"name": "odd", "config": config})
        assert status == 201
        assert host.read_message()["method"] == "notifications/tools/list_changed"
        assert [tool["name"] for tool in host.ask("tools/list")["result"]["tools"]] == ["odd"]


def test_what_cannot_be_read_is_told_and_does_no_harm(tmp_path: Path) -> None:
    with start_mcp(tmp_path) as host:
        host.send(b"garbage")
        assert host.read_message()["error"]["code"] == -32700
        host.send(b'{"jsonrpc":"2.0","id":1,"method":"x","params":"' + b"a" * (9 * 1024 * 1024) + b'"}')
        assert host.read_message()["error"]["code"] == -32700
        assert host.ask("tools/list")["error"]["code"] == -32600, "nobody has initialized"
        assert host.ask("ping")["result"] == {}


def test_a_host_may_be_given_less_than_everything(tmp_path: Path) -> None:
    with start_mcp(tmp_path, "--role", "staff", "--user", "anna") as host:
        host.initialize()
        assert {tool["name"] for tool in host.ask("tools/list")["result"]["tools"]} == {"shout", "empty", "count"}


def test_a_store_that_nobody_can_share_is_told_in_a_line(tmp_path: Path) -> None:
    with start_mcp(tmp_path) as host:
        host.initialize()
        done = run_toolyard(tmp_path, "mcp")
        assert done.code == 1 and done.out == "" and done.errors.startswith("toolyard: "), done
