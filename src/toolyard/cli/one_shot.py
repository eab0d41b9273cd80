"""One message and its answer, for scripts: the answer goes to standard output, everything else to standard error."""

import sys
from contextlib import aclosing

import msgspec

from toolyard.cli.conversation import ChatClient
from toolyard.cli.screen import describe_place
from toolyard.cli.terminal import sanitize
from toolyard.core.conversation.events import RunEnded
from toolyard.core.conversation.run_view import Awaited, OpenRuns, RunView

_WAIT_REASONS: dict[Awaited, str] = {
    "approval": "needs {approval} ({rule})",
    "answer": "asks a question",
    "client": "runs in an application",
}


class OneShotChat:
    """One message in a conversation, up to its answer, or to the reasons why there is none."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client

    async def ask(self, message: str) -> int:
        """Print the answer and return 0, or print the reason why there is no answer and return 1."""
        runs = OpenRuns()
        async with aclosing(self._client.send(message)) as items:
            async for item in items:
                view = runs.apply(item)
                if view is not None and view.at_rest:
                    return self._report_end(view, view.end) if view.end else await self._report_waiting(view)
        return 1

    async def _report_waiting(self, view: RunView) -> int:
        if view.awaited_budget:
            _complain(f"the budget {view.awaited_budget} is used up, so there is no answer until it is raised")
            return 1
        for call in map(view.calls.__getitem__, view.waiting_for):
            reason = _WAIT_REASONS[call.awaited or "approval"].format(rule=call.rule, approval=call.awaited_approval)
            values = f" {msgspec.json.encode(call.call.arguments).decode()}" if call.parent else ""
            _complain(f"{describe_place(call)}{values} {reason}, so there is no answer yet")
        if set(view.waiting_for) <= (await self._client.list_refusals()).keys():
            return 1  # there is nothing that the user could do
        conversation = self._client.conversation
        _complain(
            f"decide in conversation {conversation} on the server's web page, or use `toolyard chat` without a message"
        )
        return 1

    def _report_end(self, view: RunView, end: RunEnded) -> int:
        if answer := "\n".join(text.text for text in view.texts if text.text):
            print(sanitize(answer), flush=True)
        if end.ending == "done":
            return 0
        _complain(f"{end.ending}: {end.detail}")
        return 1


def _complain(text: str) -> None:
    print(f"toolyard: {sanitize(text)}", file=sys.stderr)
