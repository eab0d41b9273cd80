"""The sentence for a run that waits for a person: clients of OpenAI know no other way to say it. Pure."""

from urllib.parse import quote

from toolyard.core.run_view import CallView, RunView
from toolyard.surfaces.call_ids import encode_call_id


def describe_waiting(view: RunView, base_url: str, *, with_approvals: bool = True) -> str:
    """Return what a run waits for, with a link to decide it; empty if it waits for nobody but the client.

    Without approvals only questions are described, and what others have to approve: the client gets the approvals that
    its user may give in another form.
    """
    kinds = ("approval", "answer") if with_approvals else ("answer",)
    calls = [call for call in view.open_calls if call.awaited in kinds or call.needs_others]
    if view.status != "waiting" or any(call.awaited == "client" for call in view.open_calls):
        return ""
    return "\n".join(_describe_call(call, view.conversation, base_url) for call in calls)


def _describe_call(call: CallView, conversation: str, base_url: str) -> str:
    link = f"{base_url.rstrip('/')}/#/chat/{quote(conversation)}?call={encode_call_id(conversation, call.call.id)}"
    if call.needs_others:
        return f"`{call.call.tool}` waits for {call.awaited_approval}. Go on when it was decided: {link}"
    if call.awaited == "approval":
        return f"`{call.call.tool}` waits for an approval. Approve or deny it here, then go on: {link}"
    return f"`{call.call.tool}` asks a question. Answer it here, then go on: {link}"
