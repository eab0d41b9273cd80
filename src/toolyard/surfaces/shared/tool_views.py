"""Tools as the conversation routes show them: by the id of the server that they run on.

A venue without servers counts as one: function tools have the server id `function`.
"""

from collections.abc import Sequence

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.core.tools.definition import Tool
from toolyard.engine.service import Service
from toolyard.surfaces.http.request_body import LenientBody


class ToolRef(LenientBody, kw_only=True):
    """A reference to a tool: its name and its server."""

    server_id: str
    tool_name: str


def get_server_id(tool: Tool) -> str:
    return tool.server or tool.venue


def get_remote_name(tool: Tool) -> str:
    """Return the tool's name on its server; models may use another name for it."""
    return tool.remote or tool.name


class EnabledTool(Struct, kw_only=True, omit_defaults=True):
    """A tool that a conversation has enabled."""

    server_id: str
    tool_name: str
    available: bool = True
    """False while the server is stopped or has failed; left out if true."""


class AllowedTools(Struct, frozen=True):
    """The tools that a caller may use: those that are usable now, and those whose servers do not run."""

    usable: Sequence[Tool]
    unavailable: Sequence[Tool]

    @property
    def all(self) -> Sequence[Tool]:
        return (*self.usable, *self.unavailable)


def list_allowed_tools(service: Service, caller: Caller, settings: Settings | None = None) -> AllowedTools:
    """Return the tools that a caller may use, where the settings of a conversation are given in that one."""
    return AllowedTools(service.tools.list_usable(caller, settings), service.tools.list_unavailable(caller))


def list_enabled_tools(allowed_tools: AllowedTools, settings: Settings) -> list[EnabledTool]:
    """Return the allowed tools that the conversation has enabled."""
    unavailable = {tool.name for tool in allowed_tools.unavailable}
    return [
        EnabledTool(
            server_id=get_server_id(tool), tool_name=get_remote_name(tool), available=tool.name not in unavailable
        )
        for tool in allowed_tools.all
        if settings.allows(tool)
    ]
