"""Toolyard: a tool-calling server and library with one loop, four venues for tools and one durable log."""

from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings
from toolyard.core.errors import RunFailed, RunWaiting, ToolError, ToolyardError
from toolyard.core.items import Result, UserMessage
from toolyard.core.limits import Limits
from toolyard.core.ports import Context, PolicyRequest, Verdict
from toolyard.core.tools import Tool
from toolyard.models.scripted import Scripted, call, say
from toolyard.observability.log_lines import configure_logging
from toolyard.venues.function import tool
from toolyard.venues.function.executor import Executor
from toolyard.yard import Run, Yard

__all__ = [
    "Caller",
    "Context",
    "Executor",
    "Limits",
    "PolicyRequest",
    "Result",
    "Run",
    "RunFailed",
    "RunWaiting",
    "Scripted",
    "Settings",
    "Tool",
    "ToolError",
    "ToolyardError",
    "UserMessage",
    "Verdict",
    "Yard",
    "call",
    "configure_logging",
    "say",
    "tool",
]
