"""Toolyard in an application: its tools run here, beside its own state, while the server talks to the model.

Needs nothing of the server: `pip install -e '.[client]'` in a clone.
"""

from toolyard.client.app_client import AppClient
from toolyard.client.events import (
    ApprovalRequired,
    ClientCall,
    Event,
    Final,
    ModelError,
    QuestionAsked,
    ReasoningDelta,
    TextCited,
    TextDelta,
    ToolProgress,
    ToolStatus,
    TurnRestarted,
)

__all__ = [
    "AppClient",
    "ApprovalRequired",
    "ClientCall",
    "Event",
    "Final",
    "ModelError",
    "QuestionAsked",
    "ReasoningDelta",
    "TextCited",
    "TextDelta",
    "ToolProgress",
    "ToolStatus",
    "TurnRestarted",
]
