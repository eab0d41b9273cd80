"""The Gemini wire: `streamGenerateContent` of Google's models."""

from toolyard.models.gemini.model import Gemini, from_wire, to_wire

__all__ = ["Gemini", "from_wire", "to_wire"]
