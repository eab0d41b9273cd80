"""The Messages wire: Anthropic, and every provider with the same API."""

from toolyard.models.messages.model import Anthropic, from_wire, to_wire

__all__ = ["Anthropic", "from_wire", "to_wire"]
