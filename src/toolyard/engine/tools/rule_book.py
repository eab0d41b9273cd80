"""The rules of tools that are set while the server runs, and those that they have replaced since a run began."""

from collections.abc import Callable, Collection, Mapping

from toolyard.core.settings.tool_rules import ToolRules
from toolyard.core.settings.versions import Versions
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.rules import apply_rules_by_name

FindListed = Callable[[Tool, float], Tool]
"""Returns a tool as its venue would have listed it at a time, for what has been widened since."""


class RuleBook:
    """Applies the stored rules. A tool that the configuration has rules for, under any of its names, gets none."""

    def __init__(self, configured: Collection[str] = (), find_listed: FindListed = lambda listed, at: listed) -> None:
        self._configured = frozenset(configured)
        self._find_listed = find_listed
        self._versions = Versions[Mapping[str, ToolRules]]({})
        self.changed_at = 0.0
        """When a rule was last replaced, or a server was last trusted; 0 if none ever was. Every call asks for it."""

    def replace(self, rules: Mapping[str, ToolRules], now: float) -> bool:
        """Set the rules by the names of their tools. Return whether they are others than before."""
        is_another = self._versions.replace(rules, now)
        self.note_widening(self._versions.changed_at)
        return is_another

    def note_widening(self, at: float) -> None:
        """Judge the tools of runs that began before this time as their venues listed them then, too."""
        self.changed_at = max(self.changed_at, at)

    def apply(self, tool: Tool) -> Tool:
        return self._apply(tool, self._versions.current)

    def apply_at(self, listed: Tool, at: float) -> Tool:
        """Return a tool, which its venue lists so by now, with the rules that counted at a time."""
        return self._apply(self._find_listed(listed, at), self._versions.get_at(at))

    def _apply(self, tool: Tool, rules: Mapping[str, ToolRules]) -> Tool:
        if not rules or not self._configured.isdisjoint(tool.names):
            return tool
        return apply_rules_by_name(tool, rules)
