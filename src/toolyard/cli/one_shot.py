"""One message and its answer, for scripts: the answer goes to standard output, everything else to standard error."""

import sys
from contextlib import aclosing

from toolyard.cli.conversation import ChatClient
from toolyard.cli.terminal import sanitize
from toolyard.core.events import CallJudged, CallParked, Entry, Event, RunEnded, RunQueued, RunSuspended, TurnEnded
from toolyard.core.items import Call, Item, ModelText


class OneShotChat:
    """One message in a conversation. It collects the answer, and the reasons why calls wait."""

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self._tools: dict[str, str] = {}
        self._waiting: dict[str, str] = {}
        self._answer = ""

    async def ask(self, message: str) -> int:
        """Print the answer and return 0, or print the reason why there is no answer and return 1."""
        async with aclosing(self._client.send(message)) as items:
            async for item in items:
                event = item.event if isinstance(item, Entry) else item
                self._record(event)
                if isinstance(event, RunSuspended):
                    return self._report_waiting(event.waiting_for)
                if isinstance(event, RunEnded):
                    return self._report_end(event)
        return 1

    def _record(self, event: Event) -> None:
        match event:
            case RunQueued(input=items):
                self._record_calls(items)
            case TurnEnded(items=items):
                self._record_calls(items)
                self._answer = "\n".join(item.text for item in items if isinstance(item, ModelText) and item.text)
            case CallJudged(verdict="ask", call_id=call_id, rule=rule):
                self._waiting[call_id] = f"needs an approval ({rule})"
            case CallParked(kind=kind, call_id=call_id):
                self._waiting[call_id] = "asks a question" if kind == "question" else "runs in an application"
            case _:
                pass

    def _record_calls(self, items: tuple[Item, ...]) -> None:
        self._tools |= {item.id: item.tool for item in items if isinstance(item, Call)}

    def _report_waiting(self, call_ids: tuple[str, ...]) -> int:
        for call_id in call_ids:
            reason = self._waiting.get(call_id, "waits")
            _complain(f"{self._tools.get(call_id, 'a tool')} {reason}, so there is no answer yet")
        conversation = self._client.conversation
        _complain(
            f"decide in conversation {conversation} on the server's web page, or use `toolyard chat` without a message"
        )
        return 1

    def _report_end(self, event: RunEnded) -> int:
        answer = event.message.text if event.message else self._answer
        if answer:
            print(sanitize(answer), flush=True)
        if event.ending == "done":
            return 0
        _complain(f"{event.ending}: {event.detail}")
        return 1


def _complain(text: str) -> None:
    print(f"toolyard: {sanitize(text)}", file=sys.stderr)
