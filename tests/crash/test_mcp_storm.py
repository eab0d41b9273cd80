"""A real MCP server is killed again and again; `make mcp-storm` does it two hundred times."""

from crash.mcp_storm import storm
from real_servers import build_npm_server


async def test_calls_go_on_after_every_kill_and_nothing_is_left_over() -> None:
    told = await storm(6, 1, build_npm_server("everything", trust=True))
    assert told["wrong"] == [] and told["left_over"] == []
    assert told["processes"] == 7
