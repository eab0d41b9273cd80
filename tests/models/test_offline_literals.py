"""Tools as MCP servers have them: paths, addresses and time zones reach their places whole, and nothing else does."""

from datetime import datetime

import pytest

from toolyard.core.tools import Tool
from toolyard.models._offline.matching import Matcher
from toolyard.models._offline.profiles import profile_of
from toolyard.models._offline.requests import Request, understand

NOW = datetime(2026, 11, 15, 10, 0)


def tool(name: str, said: str, *required: str, **optional: str) -> Tool:
    kinds = dict.fromkeys(required, "string") | optional
    properties: dict[str, object] = {one: {"type": kind} for one, kind in kinds.items()}
    return Tool(
        name=name,
        description=said,
        parameters={"type": "object", "properties": properties, "required": list(required)},
    )


CLOCK: dict[str, object] = {
    "source_timezone": {"type": "string", "description": "An IANA name, e.g. 'Europe/London'"},
    "time": {"type": "string", "description": "The time to convert, in 24-hour format (HH:MM)"},
    "target_timezone": {"type": "string", "description": "An IANA name, e.g. 'Asia/Tokyo'"},
}
TOOLS = (
    tool("get_current_time", "Get the current time in a timezone", "timezone"),
    Tool(
        name="convert_time",
        description="Convert time between timezones",
        parameters={"type": "object", "properties": CLOCK, "required": list(CLOCK)},
    ),
    tool("git_status", "Shows the working tree status", "repo_path"),
    tool("git_commit", "Records changes to the repository", "repo_path", "message"),
    tool("git_create_branch", "Creates a new branch", "repo_path", "branch_name"),
    tool("read_text_file", "Read the complete contents of a file as text", "path", tail="number"),
    tool("write_file", "Create a new file or overwrite an existing one", "path", "content"),
    tool("list_directory", "Get a listing of all files and directories in a path", "path"),
    tool("move_file", "Move or rename files and directories", "source", "destination"),
    tool("search_files", "Search for files that match a pattern", "path", "pattern"),
    tool("read_graph", "Read the entire knowledge graph"),
    tool("search_nodes", "Search for nodes in the knowledge graph", "query"),
    tool("fetch", "Fetches a page from the internet", "url"),
)


def asked(message: str) -> tuple[Request, ...]:
    return understand(message, Matcher([profile_of(one, "") for one in TOOLS]), NOW).requests


@pytest.mark.parametrize(
    ("message", "name", "values"),
    [
        ("What time is it in Europe/Berlin?", "get_current_time", {"timezone": "Europe/Berlin"}),
        (
            "convert 14:30 from Europe/London to Asia/Tokyo",
            "convert_time",
            {"source_timezone": "Europe/London", "time": "14:30", "target_timezone": "Asia/Tokyo"},
        ),
        ("git status of /srv/repo", "git_status", {"repo_path": "/srv/repo"}),
        (
            'commit the changes in /srv/repo with the message "fix typo"',
            "git_commit",
            {"repo_path": "/srv/repo", "message": "fix typo"},
        ),
        (
            "create a branch called feature-x in /srv/repo",
            "git_create_branch",
            {"repo_path": "/srv/repo", "branch_name": "feature-x"},
        ),
        ("read the file /etc/hosts", "read_text_file", {"path": "/etc/hosts"}),
        ("读取文件 /etc/hosts", "read_text_file", {"path": "/etc/hosts"}),
        ('write "hello" to /tmp/a.txt', "write_file", {"path": "/tmp/a.txt", "content": "hello"}),
        ("list the files in /home/me", "list_directory", {"path": "/home/me"}),
        ("move /tmp/a.txt to /tmp/b.txt", "move_file", {"source": "/tmp/a.txt", "destination": "/tmp/b.txt"}),
        ("rename notes.txt to old.txt", "move_file", {"source": "notes.txt", "destination": "old.txt"}),
        ("search for *.py files in /srv", "search_files", {"path": "/srv", "pattern": "*.py"}),
        ("show the whole knowledge graph", "read_graph", {}),
        ("search the knowledge graph for Alice", "search_nodes", {"query": "Alice"}),
        ("fetch https://example.com/a?b=1", "fetch", {"url": "https://example.com/a?b=1"}),
    ],
)
def test_what_is_written_exactly_is_passed_on_exactly(message: str, name: str, values: dict[str, object]) -> None:
    assert [(one.profile.tool.name, one.values) for one in asked(message)] == [(name, values)]


@pytest.mark.parametrize("message", ["add 2 and 3", "the file /etc/hosts", "hosts in /etc/hosts", "覆盖 /etc/hosts"])
def test_nothing_is_written_where_nobody_asked_for_it(message: str) -> None:
    changing = {"write_file", "move_file", "git_commit", "git_create_branch"}
    assert not [one for one in asked(message) if one.profile.tool.name in changing]


def test_words_are_no_path() -> None:
    (request,) = asked("read a file")
    assert request.missing is not None and request.missing.name == "path" and request.values == {}
