"""What a server writes to standard error, by default and as configured."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from cli.commands.test_models import ollama
from cli.process import PATIENCE_S, Serving, ask, environment, serving, stream

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


def log_of(server: Serving) -> list[str]:
    """The lines of a server that has been stopped."""
    server.stop()
    return server.errors()


def call(server: Serving, tool: str, arguments: object, correlation_id: str) -> None:
    """Call a tool by hand, and wait for its end."""
    made = ask(f"{server.url}/conversations", {"title": "log"})[1]["conversation"]
    assert isinstance(made, dict)
    base = f"{server.url}/conversations/{made['id']}"
    body, headers = {"tool": tool, "arguments": arguments}, {"x-correlation-id": correlation_id}
    assert ask(f"{base}/calls", body, headers=headers)[0] == 202
    with stream(f"{base}/events") as objects:
        next(one for one in objects if one["type"] == "done")


@pytest.mark.proves("003.log-by-default")
def test_by_default_each_request_and_failed_call_leaves_a_line_with_its_correlation_id(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(TOOLS)
    with serving(tmp_path, "--tools", "./my_tools.py") as server:
        ask(f"{server.url}/me", headers={"x-correlation-id": "one-request"})
        ask(f"{server.url}/nowhere%0A[ERROR]%20forged", headers={"x-correlation-id": "no-such-path"})
        call(server, "find_order", {"number": "7", "api_key": "very-secret"}, "one-call")
        call(server, "open_door", {"number": "3"}, "call-that-works")
        ask(f"{server.url}/healthz", headers={"x-correlation-id": "a-probe"})
        lines = log_of(server)
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
    with ollama("m") as address, serving(tmp_path, "--model", f"{address}#m") as server:
        with stream(f"{server.url}/ai/respond", {"prompt": "hi"}, {"x-correlation-id": "refused"}) as objects:
            assert list(objects)[-1]["ending"] == "failed"
        lines = log_of(server)
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
    with serving(tmp_path, *words, **more) as server:
        ask(f"{server.url}/healthz", headers={"x-correlation-id": "a-probe"})
        lines = [json.loads(line) for line in log_of(server)]
    (line,) = [line for line in lines if line["correlation_id"] == "a-probe"]
    assert (line["level"], line["logger"], line["message"]) == ("DEBUG", "toolyard.http", "Request finished")
    assert (line["method"], line["path"], line["status"]) == ("GET", "/healthz", 200)


def test_a_log_that_nobody_reads_stops_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "toolyard", "serve", "--port", "0", "--store", "memory:"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stdout=-1, stderr=-1, text=True) as server:
        try:
            assert server.stdout is not None
            url = next(line for line in server.stdout if "listens on" in line).split()[-1]
            for _ in range(500):  # more lines than a pipe takes
                request = urllib.request.Request(f"{url}/me", headers={"x-correlation-id": "i" * 128})
                urllib.request.urlopen(request, timeout=PATIENCE_S).close()
        finally:
            server.kill()


def test_the_configuration_names_the_levels(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text('[log]\nlevel = "loud"\n')
    server = Serving(tmp_path, (), {})
    assert server.ended() == 1
    server.kill()
    assert any("line 2: log.level must be" in line for line in server.errors())
