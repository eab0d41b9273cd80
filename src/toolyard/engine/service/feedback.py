"""What people think of answers: a thumb and a note for a run, kept with its conversation and deleted with it."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.conversation.events import RunQueued
from toolyard.core.errors import NotFound, Refused
from toolyard.core.ports import FEEDBACK_HANDLE, Clock
from toolyard.core.store import Store

Rating = Literal["up", "down"]
MAX_RATED_RUNS = 2_000
"""Of one conversation."""


class RunFeedback(Struct, frozen=True, kw_only=True):
    """What the owner of a conversation thinks of a run."""

    rating: Rating
    note: str = ""
    by: str
    at: float


_decoder = msgspec.json.Decoder(dict[str, RunFeedback])


class Feedback:
    """Keeps the feedback of each conversation as one blob. Permissions are checked by the caller."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def read(self, conversation: str) -> Mapping[str, RunFeedback]:
        """Return the feedback by run."""
        body = await self._store.get_blob(conversation, FEEDBACK_HANDLE)
        return _decoder.decode(body) if body else {}

    async def give(self, conversation: str, run_id: str, rating: Rating, note: str, by: Caller) -> RunFeedback:
        """Store the feedback on a run in place of an earlier one. Raises NotFound or Refused."""
        entries = await self._store.read(conversation)
        if not any(entry.run == run_id and isinstance(entry.event, RunQueued) for entry in entries):
            raise NotFound(f"there is no run {run_id[:80]!r} in this conversation")
        feedback = RunFeedback(rating=rating, note=note, by=by.user, at=self._clock.now())
        async with self._store.lock("feedback", conversation):
            rated = {**await self.read(conversation), run_id: feedback}
            if len(rated) > MAX_RATED_RUNS:
                raise Refused(f"a conversation has feedback on at most {MAX_RATED_RUNS:,} runs")
            await self._write(conversation, rated)
        return feedback

    async def withdraw(self, conversation: str, run_id: str) -> None:
        """Delete the feedback on a run. Raises NotFound if there is none."""
        async with self._store.lock("feedback", conversation):
            rated = dict(await self.read(conversation))
            if rated.pop(run_id, None) is None:
                raise NotFound(f"there is no feedback on run {run_id[:80]!r}")
            await self._write(conversation, rated)

    async def _write(self, conversation: str, rated: Mapping[str, RunFeedback]) -> None:
        await self._store.put_blob(conversation, FEEDBACK_HANDLE, msgspec.json.encode(rated))
