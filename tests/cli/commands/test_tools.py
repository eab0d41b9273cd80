"""`toolyard tools` and `toolyard trace`."""

from pathlib import Path

import pytest

from cli.process import open_stream, read_until, request_json, run_toolyard, start_server

TOOLS = """
from toolyard import Executor, ToolError, tool

@tool(roles={"staff"}, read_only=True, open_world=True)
def count(item: str) -> int:
    "Count what there is."
    if item == "nothing":
        raise ToolError("there is none", "not_found")
    return 3

@tool(timeout_s=5)
def empty() -> str:
    "Empty the shelf."
    return "empty"

class Lock:
    name = "lock"
    description = "Lock up."
    parameters = {"type": "object", "properties": {}}
    def is_enabled(self): return True
    def requires_permission(self): return True
    def has_permission(self, role): return role in ("staff", "night")
    def execute(self, call, context): return "locked"

class Open(Executor):
    name = "open"
    description = "Open up."
    roles = ("morning",)
    read_only = True
    def execute(self, call, context): return "open"
"""
RULES = """
tools = ["./my_tools.py"]
store = "memory:"
[tool.empty]
approval = "always"
roles = ["admin"]
"""


def write_files(folder: Path) -> None:
    (folder / "my_tools.py").write_text(TOOLS)
    (folder / "toolyard.toml").write_text(RULES)


def test_tools_are_listed_with_the_rules_that_hold(tmp_path: Path) -> None:
    write_files(tmp_path)
    done = run_toolyard(tmp_path, "tools")
    assert done.code == 0, done.errors
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["count", "function", "reads", "outside", "staff", "never", "30", "s", "Count", "what", "there", "is."],
        ["empty", "function", "changes", "admin", "always", "5", "s", "Empty", "the", "shelf."],
        ["lock", "function", "changes", "staff", "(its", "own", "check)", "never", "30", "s", "Lock", "up."],
        ["open", "function", "reads", "morning", "never", "30", "s", "Open", "up."],
    ]


def test_one_is_called_as_a_model_would_call_it(tmp_path: Path) -> None:
    write_files(tmp_path)
    good = run_toolyard(tmp_path, "tools", "call", "count", '{"item": "flour"}', "--role", "staff")
    assert (good.code, good.out) == (0, "3\n")
    denied = run_toolyard(tmp_path, "tools", "call", "count", '{"item": "flour"}')
    assert denied.code == 1 and "permission_denied" in denied.out
    failed = run_toolyard(tmp_path, "tools", "call", "count", '{"item": "nothing"}', "--role", "staff")
    assert failed.code == 1 and "there is none" in failed.out
    wrong = run_toolyard(tmp_path, "tools", "call", "count", "{}", "--role", "staff")
    assert wrong.code == 1 and "validation_error" in wrong.out
    unknown = run_toolyard(tmp_path, "tools", "call", "cont")
    assert unknown.code == 1 and "there is no tool named" in unknown.out


def test_one_that_asks_first_asks_here_too(tmp_path: Path) -> None:
    write_files(tmp_path)
    agreed = run_toolyard(tmp_path, "tools", "call", "empty", input_text="y\n")
    assert agreed.code == 0 and agreed.out.endswith("empty\n")
    refused = run_toolyard(tmp_path, "tools", "call", "empty", input_text="n\n")
    assert refused.code == 1 and "denied_by_user" in refused.out
    assert run_toolyard(tmp_path, "tools", "call", "empty", "--yes").code == 0
    silent = run_toolyard(tmp_path, "tools", "call", "empty")
    assert silent.code == 1 and "denied_by_user" in silent.out


def test_a_trace_is_drawn_from_the_server_and_from_the_store(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        with open_stream(
            f"{server.url}/ai/respond", {"prompt": "hello"}, {"x-correlation-id": "greeting-1"}
        ) as objects:
            read_until(objects, type="done")
        assert request_json(f"{server.url}/traces/greeting-1")[0] == 200
        served = run_toolyard(tmp_path, "trace", "greeting-1")
        missing = run_toolyard(tmp_path, "trace", "greeting-2")
        assert missing.code == 1 and missing.errors == "toolyard: there is no trace 'greeting-2'\n"
        assert server.stop() == 0
    stored = run_toolyard(tmp_path, "trace", "greeting-1")
    assert served.code == stored.code == 0, served.errors + stored.errors
    assert "█ model" in served.out
    assert served.out == stored.out


@pytest.mark.parametrize("flags", [(), ("--yes",)])
@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ('approval = "other"', "somebody else has to decide it: another user with the role approver"),
        (
            'approval = "ask"\napprovers = ["role:board"]',
            "may not decide this call: that is for the role board",
        ),
        (
            'approval = "ask"\napprovers = ["role:admin"]\napprovals = 2',
            "empty takes 2 approvals of different people: the role admin",
        ),
    ],
)
def test_a_caller_who_may_not_decide_is_told_who_does_and_not_asked(
    terms: str, problem: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    write_files(tmp_path)
    (tmp_path / "toolyard.toml").write_text(f'tools = ["./my_tools.py"]\n[tool.empty]\n{terms}\n')
    done = run_toolyard(tmp_path, "tools", "call", "empty", *flags, input_text="y\n")
    assert (done.code, done.out) == (1, "")
    assert problem in done.errors


def test_a_named_approver_decides_and_gives_the_reason_that_is_required(tmp_path: Path) -> None:
    write_files(tmp_path)
    rules = '[tool.empty]\napproval = "ask"\napprovers = ["role:board"]\napproval_reason = true\n'
    (tmp_path / "toolyard.toml").write_text(f'tools = ["./my_tools.py"]\n{rules}')
    call = ("tools", "call", "empty", "--role", "board")
    agreed = run_toolyard(tmp_path, *call, input_text="y\nit is spring\n")
    assert agreed.code == 0 and agreed.out.endswith("empty\n"), agreed.errors
    refused = run_toolyard(tmp_path, *call, input_text="n\nit is winter\n")
    assert refused.code == 1 and "denied_by_user" in refused.out
