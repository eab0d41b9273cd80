"""Files of MCP servers in the formats of other programs become servers of the configuration."""

import json
from pathlib import Path

import pytest

from toolyard.core.errors import Misconfigured
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.server.config import load_mcp_servers

FILES = {"command": "npx", "args": ["-y", "server-filesystem@1.0.0", "."]}


def load(folder: Path, content: object) -> dict[str, ServerSpec]:
    path = folder / "mcp_servers.json"
    path.write_text(json.dumps(content))
    return load_mcp_servers(path, {"TOKEN": "t0ken"})


@pytest.mark.parametrize(
    "content",
    [
        {"mcpServers": {"files": FILES}},
        {"servers": {"files": FILES}},
        {"servers": [{"name": "files", **FILES}]},
        {"servers": [{"id": "41cdd2bc", "slug": "files", "config": {"name": "files", **FILES}, "status": "stopped"}]},
        {"servers": [{"config": {"name": "files", "slug": None, "env": None, "cwd": None, **FILES}}], "version": "1.0"},
    ],
)
def test_each_of_the_known_shapes_is_read(tmp_path: Path, content: object) -> None:
    args = ("-y", "server-filesystem@1.0.0", ".")
    assert load(tmp_path, content) == {"files": ServerSpec(command="npx", args=args)}


def test_a_server_of_a_list_keeps_its_name_and_gets_an_id(tmp_path: Path) -> None:
    listed = {"config": {"name": "My Filesystem Server", "env": {"TOKEN": "${TOKEN}"}, **FILES}}
    (server_id, spec), *others = load(tmp_path, {"servers": [listed]}).items()
    assert (server_id, spec.display_name, others) == ("my-filesystem-server", "My Filesystem Server", [])
    assert spec.env == {"TOKEN": "t0ken"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, '"mcpServers"'),
        ({"servers": 3}, '"mcpServers"'),
        ({"servers": [{"config": FILES}]}, "has no name"),
        ({"servers": [{"name": "files", **FILES}, {"name": "files", **FILES}]}, "'files' is listed twice"),
        ({"servers": [{"name": "files"}]}, "must have a command or a url"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, content: object, expected: str) -> None:
    with pytest.raises(Misconfigured, match=expected):
        load(tmp_path, content)
