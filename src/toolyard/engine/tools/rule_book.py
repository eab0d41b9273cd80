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
        self.versions = Versions[Mapping[str, ToolRules]]({})

    def replace(self, rules: Mapping[str, ToolRules], now: float) -> bool:
        """Set the rules by the names of their tools. Return whether they are others than before."""
        return self.versions.replace(rules, now)

    def apply(self, tool: Tool) -> Tool:
        return self._apply(tool, self.versions.current)

    def apply_at(self, listed: Tool, at: float) -> Tool:
        """Return a tool, as its venue lists it, with the rules that counted at a time."""
        return self._apply(listed, self.versions.get_at(at))

    def _apply(self, tool: Tool, rules: Mapping[str, ToolRules]) -> Tool:
        if not rules or not self._configured.isdisjoint(tool.names):
            return tool
        return apply_rules_by_name(tool, rules)
