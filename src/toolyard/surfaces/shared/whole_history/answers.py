"""What the answers to requests with a whole history have in common. Pure."""

from msgspec import Struct

from toolyard.core.conversation.run_view import CallView, RunView
from toolyard.surfaces.shared.runs.answer import WaitingCall, build_waiting_call


class ToolyardAnswer(Struct, kw_only=True):
    """Where the answer comes from, and what it waits for."""

    conversation_id: str
    run_id: str
    waiting: list[WaitingCall] = []
    budget: str = ""
    """The budget that the run waits for, until its amount is raised."""


def wants_only_final_text(view: RunView) -> bool:
    """Return whether the answer is the last turn's text alone, since it has to fit a schema."""
    return view.request is not None and view.request.options.output_schema is not None


def list_client_calls(view: RunView) -> list[CallView]:
    """Return the calls that the client has to run."""
    return [call for call in view.open_calls if call.awaited == "client"] if view.status == "waiting" else []


def build_toolyard_answer(view: RunView) -> ToolyardAnswer:
    waiting = [build_waiting_call(view.calls[call_id]) for call_id in view.waiting_for]
    return ToolyardAnswer(
        conversation_id=view.conversation,
        run_id=view.run_id,
        waiting=[call for call in waiting if call.awaited != "client"],
        budget=view.awaited_budget,
    )
