"""Turns documents (Word, Excel, PowerPoint, HTML) into text, each in a child process with bounds of its own."""

from toolyard.engine.documents.reader import DocumentReader

__all__ = ["DocumentReader"]
