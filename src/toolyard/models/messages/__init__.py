"""The Messages wire: Anthropic, and every provider that speaks it."""

from toolyard.models.messages.model import Anthropic, from_wire, to_wire

__all__ = ["Anthropic", "from_wire", "to_wire"]
