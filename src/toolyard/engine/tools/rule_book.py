"""The rules of tools that are set while the server runs, and those that they have replaced since a run began."""

from collections.abc import Collection, Mapping

from toolyard.core.settings.tool_rules import ToolRules
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.rules import apply_rules_by_name
from toolyard.engine.tools.versions import Versions


class RuleBook:
    """Applies the stored rules. A tool that the configuration has rules for, under any of its names, gets none."""

    def __init__(self, configured: Collection[str] = ()) -> None:
        self._configured = frozenset(configured)
        self._versions = Versions[Mapping[str, ToolRules]]({})

    def replace(self, rules: Mapping[str, ToolRules], now: float) -> bool:
        """Set the rules by the names of their tools. Return whether they are others than before."""
        return self._versions.replace(rules, now)

    def apply(self, tool: Tool) -> Tool:
        return self._apply(tool, self._versions.current)

    def find_earlier(self, listed: Tool, since: float) -> Tool | None:
        """Return a tool as it was at a time, if other rules have been set since; None if none have."""
        if since >= self._versions.changed_at:
            return None
        return self._apply(listed, self._versions.get_at(since))

    def changed_since(self, at: float) -> float:
        """Return when rules were last set, if that was after this time; 0 otherwise."""
        return self._versions.changed_at if self._versions.changed_at > at else 0.0

    def _apply(self, tool: Tool, rules: Mapping[str, ToolRules]) -> Tool:
        if not rules or not self._configured.isdisjoint(tool.names):
            return tool
        return apply_rules_by_name(tool, rules)
