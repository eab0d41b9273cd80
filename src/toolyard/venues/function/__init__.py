"""Tools that run in this process: typed functions and executor objects."""

from toolyard.venues.function.openai_tools import tools_from_openai
from toolyard.venues.function.venue import (
    ExecutorTool,
    FunctionTool,
    FunctionVenue,
    RunnableTool,
    ToolDecorator,
    ToolLike,
    as_tool,
    tool,
)

__all__ = [
    "ExecutorTool",
    "FunctionTool",
    "FunctionVenue",
    "RunnableTool",
    "ToolDecorator",
    "ToolLike",
    "as_tool",
    "tool",
    "tools_from_openai",
]
