"""A real MCP server is killed again and again; `make mcp-storm` does it two hundred times."""

from crash.mcp_storm import storm
from real_servers import build_npm_server


async def test_calls_go_on_after_every_kill_and_nothing_is_left_over() -> None:
    report = await storm(6, 1, build_npm_server("everything", trust=True))
    assert report["wrong"] == [] and report["left_over"] == []
    assert report["processes"] == 7
