"""The routes of `/conversations`."""

from toolyard.surfaces.conversations import (
    branches,
    calls,
    context,
    conversations,
    direct_calls,
    feedback,
    messages,
    presets,
    runs,
    tool_events,
    tools,
)
from toolyard.surfaces.conversations.sharing import export, shares
from toolyard.surfaces.surface import Surface

_MODULES = (
    conversations, messages, context, tools, runs, tool_events, branches, calls, direct_calls, feedback, export, shares,
    presets
)  # fmt: skip


SURFACE = Surface(
    routes=tuple(route for module in _MODULES for route in module.ROUTES),
    session_paths=frozenset(
        {"/conversations", "/conversations/*", "/presets", "/presets/*", "/shares/*", "/sse/conversations/*"}
    ),
)
