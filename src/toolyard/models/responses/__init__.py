"""The Responses wire: OpenAI's newer API, with reasoning that goes back between turns and tools of its own."""

from toolyard.models.responses.model import OpenAIResponses, from_wire, to_wire

__all__ = ["OpenAIResponses", "from_wire", "to_wire"]
