"""What the answers to requests with a whole history have in common. Pure."""

from toolyard.core.conversation.run_view import CallView, RunView


def wants_only_final_text(view: RunView) -> bool:
    """Return whether the answer is the last turn's text alone, since it has to fit a schema."""
    return view.request is not None and view.request.options.output_schema is not None


def list_client_calls(view: RunView) -> list[CallView]:
    """Return the calls that the client has to run."""
    return [call for call in view.open_calls if call.awaited == "client"] if view.status == "waiting" else []
