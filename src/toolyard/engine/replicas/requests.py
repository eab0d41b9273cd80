"""Requests with an Idempotency-Key: each takes effect once, and one whose run failed may start another."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from toolyard.core.conversation.commands import Start, StateCommand
from toolyard.core.conversation.events import REQUEST_KEY_S, ConversationChanged, Entry, RequestKey, RunRequest
from toolyard.core.conversation.run_view import RunView
from toolyard.core.errors import Invalid, RequestRepeated
from toolyard.core.ports import Clock
from toolyard.core.store import Catalog, RequestRecord
from toolyard.named_locks import NamedLocks


def build_restart(entries: Sequence[Entry], run_id: str, correlation_id: str) -> Start | None:
    """Return the command that runs a request again; None if the request is answered with what came of it.

    `entries` are those of the log from the one on that the request is recorded with. The new run, with the id `run_id`,
    takes the request over only if nobody else has: the store compares the run that the request is recorded with.
    """
    if not entries or entries[0].request is None:
        return None
    view = RunView(run_id=entries[0].run)
    for entry in entries:
        # Once something else happened in the conversation, the history does not end with the request any more.
        if view.apply(entry) is None and not isinstance(entry.event, ConversationChanged):
            return None
    request = view.request
    if request is None or not view.may_run_again:
        return None
    return Start(
        by=request.caller,
        correlation_id=correlation_id,
        request=replace(entries[0].request, replaces=view.run_id),
        run_id=run_id,
        input=(),
        run=msgspec.convert(request, RunRequest, from_attributes=True),
        may_open=False,
    )


class Requests:
    """Finds requests that took effect, and lets one request with a key at a time take effect in this process."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self._locks = NamedLocks()

    async def find(self, request: RequestKey | None) -> RequestRecord | None:
        """Return the record of a request that took effect in the last 24 hours. Raises Invalid for another body.

        A record that the request is about to replace is none.
        """
        if request is None:
            return None
        record = await self._catalog.find_request(request.key_hash)
        if record is None or record.at <= self._clock.now() - REQUEST_KEY_S:
            return None
        if record.body_hash != request.body_hash:
            raise Invalid(
                "this Idempotency-Key was sent with another body before; use a new key for each new request",
                {"field": "idempotency-key"},
            )
        return None if request.replaces and record.run == request.replaces else record

    async def acquire(self, command: StateCommand) -> Callable[[], None]:
        """Keep other commands of the same request out, and return a function that lets the next one in.

        Raises RequestRepeated if one took effect before. The store refuses a second one as well, but that would break
        the journal and all that runs in it.
        """
        request = command.request
        if request is None or command.has_new_key:
            return release_nothing
        lock = self._locks.lock("request", request.key_hash)
        await lock.acquire()
        try:
            if await self.find(request) is not None:
                raise RequestRepeated("a request with this Idempotency-Key took effect before")
        except BaseException:
            lock.release()
            raise
        return lock.release


def release_nothing() -> None:
    """Do nothing: a command without a key, or with a new one, has no lock."""
