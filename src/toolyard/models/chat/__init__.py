"""The Chat Completions wire: OpenAI, and every provider that speaks its dialect."""

from toolyard.models.chat.model import OpenAIChat, from_wire, to_wire

__all__ = ["OpenAIChat", "from_wire", "to_wire"]
