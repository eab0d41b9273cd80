"""Apply the rules of a configuration to a tool. Pure."""

from collections.abc import Mapping

from msgspec.structs import asdict, replace

from toolyard.core.settings.tool_rules import ToolRules
from toolyard.core.tools.definition import Tool


def apply_rules(tool: Tool, rules: ToolRules) -> Tool:
    """Return the tool with the rules that are set in place of its own."""
    changes = {name: value for name, value in asdict(rules).items() if value is not None}
    # A tool of an untrusted server is assumed to be destructive. A rule that sets one of the two flags clears the
    # other, so that the tool does not end up with both.
    if rules.read_only:
        changes["destructive"] = False
    elif rules.destructive:
        changes["read_only"] = False
    return replace(tool, **changes)


def apply_rules_by_name(tool: Tool, rules: Mapping[str, ToolRules]) -> Tool:
    """Return a tool with the rules of its names. Those of the name that it is offered under come last, and win."""
    for name in (*tool.former_names, tool.name):
        if name in rules:
            tool = apply_rules(tool, rules[name])
    return tool


def narrow_tool(tool: Tool, earlier: Tool) -> Tool:
    """Return a tool without what has widened it since a run began, when it was the earlier one.

    Who may use it and who decides its calls stay as they are: the policy judges both tools.
    """
    return replace(
        tool,
        timeout_s=min(tool.timeout_s, earlier.timeout_s),
        approval_s=min(tool.approval_s, earlier.approval_s),
        client_s=min(tool.client_s, earlier.client_s),
        retries=min(tool.retries, earlier.retries),
        read_only=tool.read_only and earlier.read_only,
        destructive=tool.destructive or earlier.destructive,
        open_world=tool.open_world or earlier.open_world,
        untrusted=tool.untrusted or earlier.untrusted,
        unreviewed=tool.unreviewed or earlier.unreviewed,
        idempotent=tool.idempotent and earlier.idempotent,
        exclusive=tool.exclusive or earlier.exclusive,
        max_result_bytes=min(tool.max_result_bytes, earlier.max_result_bytes),
    )
