"""The tools that surfaces list and describe for a caller."""

from collections.abc import Callable, Iterable

from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings
from toolyard.core.errors import (
    NotFound,
)
from toolyard.core.items import Problem
from toolyard.core.ports import McpProxy
from toolyard.core.tools.definition import Tool
from toolyard.engine.access.explanation import AccessExplanation
from toolyard.engine.dependencies import Deps
from toolyard.engine.loop.starting_tools import wait_for_tools
from toolyard.engine.replicas.ownership import Driver
from toolyard.engine.tools.tool_health import ToolAudit, audit_tools


class Tools:
    """The server's tools as a caller sees them."""

    def __init__(self, deps: Deps, driver: Driver, mcp_proxy: McpProxy) -> None:
        self._deps = deps
        self._driver = driver
        self._mcp_proxy = mcp_proxy

    def list_usable(
        self, caller: Caller, settings: Settings | None = None, *, include_native: bool = True
    ) -> list[Tool]:
        """Return the tools that this caller may use, where the settings of a conversation are given in that one.

        `include_native` adds tools that only a provider can call.
        """
        usable = self._deps.registry.usable_tools(caller, settings or Settings())
        return usable if include_native else [tool for tool in usable if tool.venue != "provider"]

    def find_usable(self, name: str, caller: Caller) -> Tool | None:
        """Return the tool of this name if the caller may use it and it is not a provider's; else None."""
        return self._deps.registry.find_usable(name, caller)

    async def wait_for(self, caller: Caller, is_listed: Callable[[], bool] | None = None) -> None:
        """Wait while a server that has never listed its tools is starting, or until `is_listed` returns True."""
        await wait_for_tools(caller, self._deps, is_listed)

    def find(self, name: str) -> Tool | None:
        """Return the server's tool of this name, whoever may use it."""
        entry = self._deps.registry.find(name)
        return entry.tool if entry else None

    def list_unavailable(self, caller: Caller) -> list[Tool]:
        """Return the tools that this caller may use once their servers run again."""
        return self._deps.registry.unavailable_tools(caller)

    def describe_missing(self, name: str, caller: Caller) -> Problem:
        """Return why there is no such tool for this caller: its server does not offer it now, or nobody has it."""
        return self._deps.registry.describe_missing_tool(name, [tool.name for tool in self.list_usable(caller)], caller)

    def list_taken_names(self, names: Iterable[str], caller: Caller) -> list[str]:
        """Return the names that the server's own tools have: an application's tool of such a name is not offered."""
        return [name for name in names if self._deps.registry.is_taken(name, caller)]

    def on_changed(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the server's tools change. Return a function that unsubscribes it."""
        listeners = self._deps.registry.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)

    def find_servers(self, caller: Caller, capability: str) -> list[str]:
        """Return the MCP servers with this capability that have a tool for this caller, or no tools at all."""
        usable = {tool.server for tool in self._deps.registry.usable_tools(caller)}
        offering = self._mcp_proxy.find_servers(capability, caller)
        return [server for server, has_tools in offering.items() if server in usable or not has_tools]

    def check_health(self, caller: Caller) -> ToolAudit:
        """Return the tools that this caller is offered, and those that would run for it."""
        return audit_tools(self._deps.registry, self._deps.policy, caller)

    def explain_access(self, caller: Caller, tool: str) -> AccessExplanation:
        """Return why a caller may or may not use a tool. Raises NotFound if there is no such tool."""
        explanation = self._deps.policy_check.explain(caller, tool)
        if explanation is None:
            raise NotFound(f"there is no tool {tool[:80]!r}")
        return explanation

    def warnings(self) -> list[str]:
        """Return the warnings of the venues, for operators."""
        return self._deps.registry.warnings()

    def find_only_call(self, server: str) -> str:
        """Return the id of the call that runs on an MCP server now; empty if none or several run there."""
        running = [(call, journal.state) for journal in self._driver for call in journal.state.calls_in("running")]
        call_ids = [
            call.call.id
            for call, state in running
            if (entry := self._deps.registry.lookup(call, state)) is not None and entry.tool.server == server
        ]
        return call_ids[0] if len(call_ids) == 1 else ""
