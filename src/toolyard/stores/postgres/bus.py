"""Messages between replicas over LISTEN and NOTIFY, and which replicas follow which conversation."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from asyncpg import Connection

from toolyard.core.errors import ToolyardError
from toolyard.core.store import MAX_MESSAGE_BYTES, LogHead
from toolyard.stores.postgres.connections import DATABASE_ERRORS, Database
from toolyard.stores.postgres.lease import IS_LIVE, MAX_BACKOFF_S, MIN_BACKOFF_S, Lease, LeasedPorts

MAX_QUEUED_MESSAGES = 10_000
MAX_FLUSH_MESSAGES = 500
CHECK_S = 5.0
"""How often an idle listening connection is checked: a cut network does not close it."""
_NOTIFY = "SELECT pg_notify(channel, body) FROM unnest($1::text[], $2::text[]) AS message (channel, body)"
_FOLLOW = """INSERT INTO followers (conversation, replica)
SELECT id, $2 FROM unnest($1::text[]) AS id ON CONFLICT DO NOTHING"""
_UNFOLLOW = "DELETE FROM followers WHERE conversation = $1 AND replica = $2"
_HEADS = f"""SELECT c.id, c.last_seq, c.epoch,
    CASE WHEN {IS_LIVE.format(replica="c.replica")} THEN c.replica ELSE '' END
FROM conversations c WHERE c.id = ANY($1)"""
_log = logging.getLogger("toolyard.postgres")


class PostgresBus(LeasedPorts):
    """One channel for each process, one connection to listen and one to notify. Messages are hints."""

    def __init__(self, database: Database, lease: Lease) -> None:
        super().__init__(database, lease)
        self._handler: Callable[[bytes], None] = lambda _: None
        self._followed = set[str]()
        self._messages: dict[tuple[str, str], None] = {}
        """What waits to be sent, by channel and body, in order; one that waits already is not sent twice."""
        self._has_messages = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._keep_listening(), name="toolyard listener"),
            asyncio.create_task(self._keep_notifying(), name="toolyard notifier"),
        ]

    def tell(self, replica: str, body: bytes) -> None:
        if len(body) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message may have {MAX_MESSAGE_BYTES} bytes, not {len(body)}")
        # Beyond the limit it is dropped: the receiver asks the database every second or two anyway.
        if len(self._messages) < MAX_QUEUED_MESSAGES:
            self._messages[_name_channel(replica), body.decode()] = None
            self._has_messages.set()

    def listen(self, handler: Callable[[bytes], None]) -> None:
        self._handler = handler

    async def follow(self, conversation: str) -> LogHead | None:
        self._followed.add(conversation)
        await self._database.fetch(_FOLLOW, [conversation], self._lease.id)
        return (await self.read_heads((conversation,))).get(conversation)

    async def unfollow(self, conversation: str) -> None:
        self._followed.discard(conversation)
        await self._database.fetch(_UNFOLLOW, conversation, self._lease.id)

    async def read_heads(self, conversations: Sequence[str]) -> Mapping[str, LogHead]:
        rows = await self._database.fetch(_HEADS, list(conversations), *self._grace)
        return {id: LogHead(last_seq=last_seq, epoch=epoch, replica=replica) for id, last_seq, epoch, replica in rows}

    async def close_bus(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_listening(self) -> None:
        backoff_s, is_first = MIN_BACKOFF_S, True
        while True:
            try:
                connection = await self._database.connect("listener")
                try:
                    await connection.add_listener(_name_channel(self._lease.id), self._receive)
                    if not is_first:
                        await self._catch_up()
                    is_first, backoff_s = False, MIN_BACKOFF_S
                    await _watch(connection)
                finally:
                    connection.terminate()
            except (*DATABASE_ERRORS, ToolyardError):
                is_first = False
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)

    async def _catch_up(self) -> None:
        """Follow again, as a crash of the database empties that table, and let the handler ask for what it missed."""
        await self._database.fetch(_FOLLOW, list(self._followed), self._lease.id)
        self._handle(b"")

    def _receive(self, connection: Connection, process: int, channel: str, body: str) -> None:
        self._handle(body.encode())

    def _handle(self, body: bytes) -> None:
        try:
            self._handler(body)
        except Exception:  # it must not end the listener
            _log.exception("a message of another replica could not be handled")

    async def _keep_notifying(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                await self._has_messages.wait()
                batch = self._take_batch()
                try:
                    if connection is None or connection.is_closed():
                        connection = await self._database.connect("notifier")
                    channels, bodies = zip(*batch, strict=True)
                    await self._database.run(connection, _NOTIFY, channels, bodies)
                except (*DATABASE_ERRORS, ToolyardError):
                    if connection is not None:
                        connection.terminate()
                    await asyncio.sleep(MIN_BACKOFF_S)
        finally:
            if connection is not None:
                connection.terminate()

    def _take_batch(self) -> list[tuple[str, str]]:
        """Take messages before they are sent: one that is told meanwhile must be sent again.

        After an error they are dropped: they are hints, and old ones are worth nothing.
        """
        batch = list(self._messages)[:MAX_FLUSH_MESSAGES]
        for message in batch:
            del self._messages[message]
        if not self._messages:
            self._has_messages.clear()
        return batch


async def _watch(connection: Connection) -> None:
    """Return or raise once the connection is broken."""
    broken = asyncio.Event()
    connection.add_termination_listener(lambda _: broken.set())
    while not broken.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_S):
                await broken.wait()
        if not broken.is_set():
            await connection.fetchval("SELECT 1")


def _name_channel(replica: str) -> str:
    """Return the channel of a replica's process, whose name stays the same when it gets a new id."""
    return f"toolyard_{replica.rpartition('.')[0]}"[:63]
