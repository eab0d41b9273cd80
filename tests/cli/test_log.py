"""What a server writes to standard error, by default and as configured."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from cli.commands.test_models import serve_ollama
from cli.process import TIMEOUT_S, ServerProcess, build_environment, open_stream, request_json, start_server

TOOLS = """
from toolyard import ToolError, tool

@tool(idempotent=True)
def find_order(number: str, api_key: str = "") -> dict[str, object]:
    "Find an order."
    raise ToolError("no such order", "not_found", {"number": number})

@tool
def open_door(number: str) -> str:
    "Open a door."
    return "open"
"""


def stop_and_read_log(server: ServerProcess) -> list[str]:
    """The lines of a server that has been stopped."""
    server.stop()
    return server.errors()


def call_tool(server: ServerProcess, tool: str, arguments: object, correlation_id: str) -> None:
    """Call a tool by hand, and wait for its end."""
    conversation = request_json(f"{server.url}/conversations", {"title": "log"})[1]["conversation"]
    assert isinstance(conversation, dict)
    base = f"{server.url}/conversations/{conversation['id']}"
    body, headers = {"tool": tool, "arguments": arguments}, {"x-correlation-id": correlation_id}
    assert request_json(f"{base}/calls", body, headers=headers)[0] == 202
    with open_stream(f"{base}/events") as objects:
        next(stream_object for stream_object in objects if stream_object["type"] == "done")


@pytest.mark.proves("003.log-by-default")
def test_by_default_each_request_and_failed_call_leaves_a_line_with_its_correlation_id(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    with start_server(tmp_path, "--tools", "./my_tools.py") as server:
        request_json(f"{server.url}/me", headers={"x-correlation-id": "one-request"})
        request_json(f"{server.url}/nowhere%0A[ERROR]%20forged", headers={"x-correlation-id": "no-such-path"})
        call_tool(server, "find_order", {"number": "7", "api_key": "very-secret"}, "one-call")
        call_tool(server, "open_door", {"number": "3"}, "call-that-works")
        request_json(f"{server.url}/healthz", headers={"x-correlation-id": "a-probe"})
        lines = stop_and_read_log(server)
    (line,) = [line for line in lines if "correlation_id=one-request" in line]
    assert "[INFO ]" in line and "method=GET | path=/me | status=200 | duration_ms=" in line
    (line,) = [line for line in lines if "correlation_id=no-such-path" in line]
    assert "[WARNING]" in line and "status=404" in line and "error_type=not_found" in line
    (line,) = [line for line in lines if "correlation_id=one-call" in line and "Tool execution error" in line]
    assert "[WARNING]" in line and "tool_name=find_order" in line and "error_type=not_found" in line
    assert 'details={"number": "7"}' in line and 'arguments={"number": "7", "api_key": "***"}' in line
    (line,) = [line for line in lines if "correlation_id=call-that-works" in line and "tool_name=open_door" in line]
    assert "[INFO ]" in line and "duration_ms=" in line
    assert not any("a-probe" in line or "very-secret" in line or line.startswith("[ERROR]") for line in lines)


def test_a_provider_that_refuses_leaves_an_error(tmp_path: Path) -> None:
    with serve_ollama("m") as address, start_server(tmp_path, "--model", f"{address}#m") as server:
        headers = {"x-correlation-id": "refused", "prefer": "respond-async"}
        with open_stream(f"{server.url}/ai/respond", {"prompt": "hi"}, headers) as objects:
            assert list(objects)[-1]["ending"] == "failed"
        lines = stop_and_read_log(server)
    (line,) = [line for line in lines if "Model turn failed" in line]
    assert "[ERROR] correlation_id=refused | " in line and "#m | error_type=" in line


@pytest.mark.parametrize(
    ("toml", "words", "more"),
    [
        ('[log]\nformat = "json"\nlevel = "debug"\n', (), {}),
        ("", ("--log-format", "json", "--log-level", "debug"), {}),
        ("", ("--verbose",), {"TOOLYARD_LOG__FORMAT": "json"}),
    ],
)
def test_the_log_can_be_json_and_more_or_less(
    tmp_path: Path, toml: str, words: tuple[str, ...], more: dict[str, str]
) -> None:
    (tmp_path / "toolyard.toml").write_text(toml)
    with start_server(tmp_path, *words, **more) as server:
        request_json(f"{server.url}/healthz", headers={"x-correlation-id": "a-probe"})
        lines = [json.loads(line) for line in stop_and_read_log(server)]
    (line,) = [line for line in lines if line["correlation_id"] == "a-probe"]
    assert (line["level"], line["logger"], line["message"]) == ("DEBUG", "toolyard.http", "Request finished")
    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)


def test_a_log_that_nobody_reads_stops_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolyard", "serve", "--port", "0", "--store", "memory:"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=build_environment(tmp_path), stdout=-1, stderr=-1, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = next(line for line in server.stdout if "listens on" in line).split()[-1]
            for _ in range(500):  # more lines than a pipe takes
                request = urllib.request.Request(f"{url}/me", headers={"x-correlation-id": "i" * 128})
                urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
        finally:
            server.kill()


def test_the_configuration_names_the_levels(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text('[log]\nlevel = "loud"\n')
    server = ServerProcess(tmp_path, (), {})
    assert server.wait() == 1
    server.kill()
    assert any("line 2: log.level must be" in line for line in server.errors())
