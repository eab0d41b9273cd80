"""Toolyard: a tool-calling server and library with one loop, four venues for tools and one durable log."""

from toolyard.core.approval_terms import ApprovalTerms
from toolyard.core.caller import Caller
from toolyard.core.conversation_settings import Settings, SettingsChange
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
from toolyard.core.history import History
from toolyard.core.items import Call, Result, UserMessage
from toolyard.core.limits import Budget, Limits
from toolyard.core.mcp_servers import ServerSpec
from toolyard.core.options import Options
from toolyard.core.ports import Context, Model, ModelRequest, PolicyRequest, Rule, Verdict
from toolyard.core.redaction import RedactRules
from toolyard.core.tools import Tool
from toolyard.core.trust import TrustRules
from toolyard.core.web_search import SearchRules
from toolyard.engine.readers import Reader
from toolyard.engine.run import Run
from toolyard.engine.run_options import RunOptions
from toolyard.engine.run_result import RunResult, ToolRun
from toolyard.observability.log_lines import configure_logging
from toolyard.venues.function import FunctionTool, ToolLike, tool
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
]
