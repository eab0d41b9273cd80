"""Tools as a conversation's routes show them: by the server they run on. It does not know any route.

A venue that has no servers of its own stands for one: function tools are under the server id `function`.
"""

from collections.abc import Iterable

from toolyard.core.settings import Settings
from toolyard.core.tools import Tool
from toolyard.surfaces._tolerance import SeedBody


class ToolName(SeedBody, kw_only=True):
    """A tool, and the server it is on."""

    server_id: str
    tool_name: str


def server_id(tool: Tool) -> str:
    return tool.server or tool.venue


def name_there(tool: Tool) -> str:
    """What its server calls it; a model may know it by another name."""
    return tool.remote or tool.name


def enabled_tools(usable: Iterable[Tool], settings: Settings) -> list[ToolName]:
    """Of the tools that a caller may use, those that the conversation has enabled."""
    enabled = [tool for tool in usable if settings.allows(tool.name)]
    return [ToolName(server_id=server_id(tool), tool_name=name_there(tool)) for tool in enabled]
