"""From words to tools: the index behind `find_tools`, the tools that a turn offers, and the offline model."""

from toolyard.tool_index.index import Found, Index
from toolyard.tool_index.words import words

__all__ = ["Found", "Index", "words"]
