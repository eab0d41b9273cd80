"""Toolyard: a tool-calling server and library with one loop, four venues for tools and one durable log."""

from importlib import import_module as _import_module

# The names of the library, by module. Each is imported when it is first used: most commands need few of them, and
# all together take longer than many a command. `__init__.pyi` says the same to type checkers.
_NAMES = {
    "toolyard.core.caller": ("Caller",),
    "toolyard.core.conversation.history": ("History",),
    "toolyard.core.conversation.settings": ("Settings", "SettingsChange"),
    "toolyard.core.errors": (
        "Forbidden",
        "Invalid",
        "Misconfigured",
        "NotFound",
        "Refused",
        "RunFailed",
        "RunWaiting",
        "StoreDown",
        "ToolError",
        "ToolyardError",
        "Unavailable",
    ),
    "toolyard.core.items": ("Call", "Result", "UserMessage"),
    "toolyard.core.ports": ("Context", "Model", "ModelRequest", "PolicyRequest", "Rule", "Verdict"),
    "toolyard.core.settings.limits": ("Budget", "Limits"),
    "toolyard.core.settings.models.options": ("Options",),
    "toolyard.core.settings.redact_rules": ("RedactRules",),
    "toolyard.core.settings.tool_rules": ("TrustRules",),
    "toolyard.core.tools.approval_terms": ("ApprovalTerms",),
    "toolyard.core.tools.definition": ("Tool",),
    "toolyard.core.tools.mcp_servers": ("ServerSpec",),
    "toolyard.core.tools.web_search_rule": ("SearchRules",),
    "toolyard.engine.log.readers": ("Reader",),
    "toolyard.engine.run.options": ("RunOptions",),
    "toolyard.engine.run.result": ("RunResult", "ToolRun"),
    "toolyard.engine.run.run": ("Run",),
    "toolyard.observability.log_lines": ("configure_logging",),
    "toolyard.venues.function": ("FunctionTool", "ToolLike", "tool", "tools_from_openai"),
    "toolyard.venues.function.executor": ("Executor",),
    "toolyard.yard": ("Yard",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll] - it reads the list of the stub


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
