"""Toolyard: a tool-calling server and library with one loop, four venues for tools and one durable log."""

from toolyard.core.caller import Caller
from toolyard.core.conversation.history import History
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import (
    Forbidden,
    Invalid,
    Misconfigured,
    NotFound,
    Refused,
    RunFailed,
    RunWaiting,
    StoreDown,
    ToolError,
    ToolyardError,
    Unavailable,
)
from toolyard.core.items import Call, Result, UserMessage
from toolyard.core.ports import Context, Model, ModelRequest, PolicyRequest, Rule, Verdict
from toolyard.core.settings.limits import Budget, Limits
from toolyard.core.settings.models.options import Options
from toolyard.core.settings.redact_rules import RedactRules
from toolyard.core.settings.tool_rules import TrustRules
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.core.tools.web_search_rule import SearchRules
from toolyard.engine.log.readers import Reader
from toolyard.engine.run.options import RunOptions
from toolyard.engine.run.result import RunResult, ToolRun
from toolyard.engine.run.run import Run
from toolyard.observability.log_lines import configure_logging
from toolyard.venues.function import FunctionTool, ToolLike, tool, tools_from_openai
from toolyard.venues.function.executor import Executor
from toolyard.yard import Yard

__all__ = [
    "ApprovalTerms",
    "Budget",
    "Call",
    "Caller",
    "Context",
    "Executor",
    "Forbidden",
    "FunctionTool",
    "History",
    "Invalid",
    "Limits",
    "Misconfigured",
    "Model",
    "ModelRequest",
    "NotFound",
    "Options",
    "PolicyRequest",
    "Reader",
    "RedactRules",
    "Refused",
    "Result",
    "Rule",
    "Run",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "RunWaiting",
    "SearchRules",
    "ServerSpec",
    "Settings",
    "SettingsChange",
    "StoreDown",
    "Tool",
    "ToolError",
    "ToolLike",
    "ToolRun",
    "ToolyardError",
    "TrustRules",
    "Unavailable",
    "UserMessage",
    "Verdict",
    "Yard",
    "configure_logging",
    "tool",
    "tools_from_openai",
]
