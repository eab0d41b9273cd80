"""Finds tools by words: the index behind `find_tools`, the tools that a turn offers, and the offline model."""

from toolyard.tool_index.index import ToolIndex, ToolMatch
from toolyard.tool_index.words import extract_words

__all__ = ["ToolIndex", "ToolMatch", "extract_words"]
