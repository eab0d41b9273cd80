"""What a run that waits asks of its client: interrupts, and calls of front-end tools. Pure."""

from collections.abc import Mapping

from toolyard.core.conversation.run_view import CallView, RunView
from toolyard.surfaces.shared.chat_messages import to_iso_time

APPROVAL_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Arguments in place of the model's"},
        "reason": {"type": "string", "description": "Why the call was denied, for the model"},
    },
    "required": ["approved"],
}


def build_interrupts(view: RunView) -> list[dict[str, object]]:
    """Return an interrupt for each call that waits for a decision or an answer."""
    return [_build_interrupt(call) for call in view.open_calls if call.awaited in ("approval", "answer")]


def list_pending_calls(view: RunView) -> list[str]:
    """Return the ids of the calls that the client has to run."""
    return [call.call.id for call in view.open_calls if call.awaited == "client"]


def _build_interrupt(call: CallView) -> dict[str, object]:
    about = {
        "id": call.call.id,
        "toolCallId": call.call.id,
        "expiresAt": to_iso_time(call.expires_at),
        "metadata": {"tool": call.call.tool, "arguments": call.arguments, "rule": call.rule},
    }
    if call.awaited == "approval":
        message = f"{call.call.tool} waits for {call.awaited_approval}"
        return {**about, "reason": "tool_call", "message": message, "responseSchema": APPROVAL_SCHEMA}
    question = call.parked.question if call.parked else {}
    message, schema = question.get("message"), question.get("requestedSchema")
    return {
        **about,
        "reason": "input_required",
        "message": message if isinstance(message, str) else f"{call.call.tool} asks a question",
        **({"responseSchema": schema} if isinstance(schema, dict) else {}),
    }
