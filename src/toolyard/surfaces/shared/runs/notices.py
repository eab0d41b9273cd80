"""Sentences about a run that waits or has failed, for clients that show nothing but texts. Pure.

They are rendered from the run's view: no item of the history, stored nowhere, and never shown to the model. Objects of
a stream mark them with `notice`, so that a client that shows a card in their place can leave them out.
"""

from urllib.parse import quote

from msgspec import Struct

from toolyard.core.conversation.run_view import CallView, RunView
from toolyard.core.settings.texts import NO_TEXTS, CustomTexts, TextName, fill_text, get_text
from toolyard.engine.service import Service
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.shared.call_ids import encode_call_id

NOTICE_FIELD = "notice"
"""The client field of a run with the sentence that its answer begins with: an earlier call waits for others."""
NOTICE_SEPARATOR = "\n\n"
"""Between the model's text and a sentence of ours."""


class RunNotices(Struct, frozen=True, kw_only=True):
    """Writes the sentences, in the language of the run."""

    texts: CustomTexts = NO_TEXTS
    base_url: str = ""
    """Where the page is, which the links lead to."""

    def describe_waiting(self, view: RunView, *, with_approvals: bool = True) -> str:
        """Return what a run waits for, with a link to decide it; empty if it waits for nobody but its client.

        Without approvals only questions are described, and what others have to approve: the client gets the approvals
        that its user may give in another form.
        """
        if view.awaited_budget:
            return self.describe_budget_wait(view)
        if view.status != "waiting" or any(call.awaited == "client" for call in view.open_calls):
            return ""
        kinds = ("approval", "answer") if with_approvals else ("answer",)
        calls = [call for call in view.open_calls if call.awaited in kinds or call.needs_others]
        return self._describe_calls(view, calls)

    def describe_run_in_front(self, view: RunView) -> str:
        """Return what a run waits for, for a message that is queued behind it; empty if it does not wait."""
        if view.awaited_budget:
            return self.describe_budget_wait(view)
        if view.status != "waiting":
            return ""
        return self._describe_calls(view, [call for call in view.open_calls if call.awaited is not None])

    def describe_budget_wait(self, view: RunView) -> str:
        """Return the budget that a run waits for, with a link to its conversation; empty if it waits for none.

        Without an address of the page there is no link.
        """
        if not view.awaited_budget:
            return ""
        sentence = fill_text(get_text("waiting_budget", view.language, self.texts), budget=view.awaited_budget)
        return f"{sentence} {self._build_conversation_link(view)}" if self.base_url else sentence

    def describe_failure(self, view: RunView) -> str:
        """Return the sentence for a run that has failed, empty for any other."""
        return get_text("failed", view.language, self.texts) if view.ending == "failed" else ""

    def _describe_calls(self, view: RunView, calls: list[CallView]) -> str:
        return "\n".join(self._describe_call(view, call) for call in calls)

    def _describe_call(self, view: RunView, call: CallView) -> str:
        text = get_text(_find_text_name(call), view.language, self.texts)
        approvers = call.terms.describe_approvers(view.language, self.texts) if call.terms else ""
        sentence = fill_text(text, tool=call.call.tool, approvers=approvers)
        return sentence if call.awaited == "client" else f"{sentence} {self._build_link(view, call)}"

    def _build_link(self, view: RunView, call: CallView) -> str:
        call_id = encode_call_id(view.conversation, call.call.id)
        return f"{self._build_conversation_link(view)}?call={call_id}"

    def _build_conversation_link(self, view: RunView) -> str:
        return f"{self.base_url.rstrip('/')}/#/chat/{quote(view.conversation)}"


NO_NOTICES = RunNotices()
"""Sentences in the server's own words, without an address of the page."""


def get_first_notice(view: RunView) -> str:
    """Return the sentence that the answer of a run begins with; empty if there is none."""
    return str(view.request.client_fields.get(NOTICE_FIELD, "")) if view.request else ""


def build_notices(service: Service, request: HttpRequest) -> RunNotices:
    """Return the sentences for the answer to a request, with links to where the request was sent."""
    return RunNotices(texts=service.texts, base_url=str(request.base_url))


def _find_text_name(call: CallView) -> TextName:
    if call.needs_others:
        return "waiting_others"
    match call.awaited:
        case "client":
            return "waiting_client"
        case "answer":
            return "waiting_answer"
        case _:
            return "waiting_approval"


def join_notice(text: str, notice: str) -> str:
    """Return the model's text with a sentence after it."""
    return NOTICE_SEPARATOR.join(filter(None, (text, notice)))
