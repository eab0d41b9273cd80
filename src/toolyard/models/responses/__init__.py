"""The Responses wire: OpenAI's newer API, which keeps reasoning between turns."""

from toolyard.models.responses.model import OpenAIResponses, from_wire, to_wire

__all__ = ["OpenAIResponses", "from_wire", "to_wire"]
