"""What this agent can do, in the words of AG-UI. Pure."""

from collections.abc import Sequence

from toolyard.core.settings.limits import Limits
from toolyard.core.tools.definition import Tool


def build_capabilities(tools: Sequence[Tool], limits: Limits, version: str) -> dict[str, object]:
    """Return the capabilities for a caller with these tools and limits."""
    return {
        "identity": {"name": "Toolyard", "type": "toolyard", "version": version},
        # A stream that broke off is followed by sending the request again, not by sequence numbers.
        "transport": {"streaming": True, "websocket": False, "httpBinary": False, "resumable": False},
        "tools": {
            "supported": True,
            "items": [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
            ],
            "parallelCalls": True,
            "clientProvided": True,
        },
        # The state is the client's: tools read it, and the stream repeats it unchanged.
        "state": {"snapshots": True, "deltas": False, "persistentState": False},
        "reasoning": {"supported": True, "streaming": True, "encrypted": False},
        "multimodal": {"input": {"image": True, "pdf": True, "audio": False, "video": False}},
        "execution": {
            "maxIterations": limits.turns_per_request,
            "maxExecutionTime": int(limits.run_seconds * 1000),
        },
        "humanInTheLoop": {"supported": True, "approvals": True, "interrupts": True, "approveWithEdits": True},
    }
