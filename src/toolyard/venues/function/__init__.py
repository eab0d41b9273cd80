"""Tools that run in this process: typed functions and executor objects."""

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
]
