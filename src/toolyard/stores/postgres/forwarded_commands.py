"""Commands on their way to the owners of conversations, and their outcomes: the table `letters`."""

from collections.abc import Sequence

from toolyard.core.errors import Fenced, NotFound, Unavailable
from toolyard.core.store import MAX_FORWARDED, CommandAnswer, ForwardedCommand
from toolyard.stores.postgres.lease import IS_LIVE, LeasedPorts

MAX_FORWARDED_BYTES = 32 * 1024 * 1024
"""Bytes of those commands together."""
_FORWARD = f"""WITH waiting AS (
    SELECT count(*) AS number, coalesce(sum(octet_length(body)), 0) AS size
    FROM letters WHERE conversation = $1 AND outcome IS NULL
), row AS (
    UPDATE conversations c SET mail = mail + 1, wake_at = 0 FROM waiting
    WHERE id = $1 AND epoch > 0 AND waiting.number < {MAX_FORWARDED} AND waiting.size <= {MAX_FORWARDED_BYTES}
    RETURNING c.mail, CASE WHEN {IS_LIVE.format(replica="c.replica")} THEN c.replica ELSE '' END AS owner
), posted AS (
    INSERT INTO letters (conversation, number, key, sender, body) SELECT $1, mail, $4, $5, $6 FROM row
    ON CONFLICT (conversation, key) DO NOTHING
)
SELECT owner FROM row"""
_EXISTS = "SELECT 1 FROM conversations WHERE id = $1 AND epoch > 0"
# A command that an owner has read cannot be withdrawn any more: its entries may be on their way. The number of the last
# command and the commands are read in one statement without a lock, so that they belong together.
_READ = """WITH row AS (SELECT mail FROM conversations WHERE id = $1 AND epoch = $2 AND replica <> ''), letter AS (
    UPDATE letters SET is_read = true FROM row
    WHERE conversation = $1 AND outcome IS NULL RETURNING number, key, sender, body
)
SELECT row.mail, letter.* FROM row LEFT JOIN letter ON true ORDER BY letter.number"""
# The lock on the conversation's row orders this with a claim: either the new owner sees the outcome, or we are fenced.
_ANSWER = """WITH row AS (
    SELECT id FROM conversations WHERE id = $1 AND epoch = $2 AND epoch > 0 AND replica <> '' FOR SHARE
), answered AS (
    UPDATE letters SET outcome = $4, answered_at = now() FROM row
    WHERE conversation = row.id AND number = $3 AND outcome IS NULL
)
SELECT 1 FROM row"""
_READ_OUTCOME = "SELECT outcome FROM letters WHERE conversation = $1 AND key = $2"
_WITHDRAW = """DELETE FROM letters WHERE conversation = $1 AND key = $2 AND outcome IS NULL AND NOT is_read
RETURNING 1"""
_FIND = """SELECT DISTINCT l.conversation FROM letters l JOIN conversations c ON c.id = l.conversation
WHERE l.outcome IS NULL AND c.replica = $1"""


class PostgresForwardedCommands(LeasedPorts):
    async def forward_command(self, conversation: str, key: str, body: bytes) -> str:
        self._database.require_up(to_write=True)
        row = await self._database.fetch_row(_FORWARD, conversation, *self._grace, key, self._lease.id, body)
        if row is not None:
            return row[0]
        if await self._database.fetch(_EXISTS, conversation):
            raise Unavailable("too many commands wait for this conversation's owner; come back in a moment")
        raise NotFound(f"there is no conversation {conversation[:80]!r}")

    async def read_forwarded(self, conversation: str, epoch: int) -> tuple[int, Sequence[ForwardedCommand]]:
        rows = await self._database.fetch(_READ, conversation, epoch)
        if not rows:
            raise _build_fenced(conversation, epoch)
        commands = [
            ForwardedCommand(number=number, key=key, sender=sender, body=body)
            for _, number, key, sender, body in rows
            if number is not None
        ]
        return rows[0][0], commands

    async def answer_forwarded(self, conversation: str, epoch: int, answer: CommandAnswer) -> None:
        if not await self._database.fetch(_ANSWER, conversation, epoch, answer.number, answer.outcome):
            raise _build_fenced(conversation, epoch)

    async def read_outcome(self, conversation: str, key: str) -> bytes | None:
        row = await self._database.fetch_row(_READ_OUTCOME, conversation, key)
        return row[0] if row else None

    async def withdraw(self, conversation: str, key: str) -> bytes | None:
        if await self._database.fetch(_WITHDRAW, conversation, key):
            return None
        row = await self._database.fetch_row(_READ_OUTCOME, conversation, key)
        if row is not None and row[0] is None:
            raise Unavailable("the owner of the conversation has read the command and has not answered yet")
        return row[0] if row else None

    async def find_forwarded(self) -> Sequence[str]:
        return [id for (id,) in await self._database.fetch(_FIND, self._lease.id)]


def _build_fenced(conversation: str, epoch: int) -> Fenced:
    return Fenced(f"epoch {epoch} does not own conversation {conversation!r}")
