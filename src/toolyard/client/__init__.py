"""The client for applications: their tools run in the application, while the server talks to the model.

A chat of CopilotKit, or of another front end that speaks AG-UI, needs no client of Toolyard's: it uses `/ag-ui`.

The server's dependencies are not needed: `pip install -e '.[client]'` in a clone.
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
