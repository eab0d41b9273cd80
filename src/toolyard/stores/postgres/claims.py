"""Who owns which conversation. Never takes one from a replica whose lease holds."""

from collections.abc import Callable, Sequence

from asyncpg import Record

from toolyard.core.errors import StoreDown, Unavailable
from toolyard.core.store import LOG_FORMAT, MAX_DEATHS, SUSPECT_DEATHS, Claim, OwnedElsewhere
from toolyard.stores.postgres.connections import finish_anyway
from toolyard.stores.postgres.lease import IS_LIVE, LEASE_HOLDS, LeasedPorts

_SUSPECT_LOCK = 0x73757370656374
_DELAY = "make_interval(secs => least(60, 2.0 ^ (c.deaths - 2)))"
_MAY_RETRY = f"c.deaths < {MAX_DEATHS} AND coalesce(c.taken_at + {_DELAY} <= now(), true)"
_IS_SUSPECT = f"c.deaths >= {SUSPECT_DEATHS - 1}"
_MAY_TAKE_SUSPECT = f"""{_MAY_RETRY}
    AND pg_try_advisory_xact_lock({_SUSPECT_LOCK}) AND NOT EXISTS (
        SELECT 1 FROM conversations o WHERE o.deaths >= {SUSPECT_DEATHS} AND o.id <> c.id AND o.replica <> ''
        AND {IS_LIVE.format(replica="o.replica")}
    )"""
_DIED = "c.replica NOT IN ('', $4)"
# `has_forwarded` is also true if a command was forwarded while this statement waited for the row: the commands are read
# as of its start, the row as of now.
#
# The first epoch of a row is the time in milliseconds: a conversation that was deleted, forgotten by `maintenance` and
# opened anew, or copied from another store, never has an epoch that an earlier owner had.
_CLAIM = f"""INSERT INTO conversations AS c (id, epoch, replica)
SELECT id, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, $4 FROM (SELECT unnest($1::text[]) AS id) AS new
WHERE EXISTS (SELECT 1 FROM replicas WHERE id = $4 AND alive_until > clock_timestamp()) ORDER BY id
ON CONFLICT (id) DO UPDATE SET epoch = abs(c.epoch) + 1, replica = $4,
    deaths = CASE WHEN {_DIED} THEN c.deaths + 1 ELSE c.deaths END,
    taken_at = CASE WHEN {_DIED} THEN now() ELSE c.taken_at END,
    wake_at = CASE WHEN {_DIED} AND c.deaths + 1 >= {MAX_DEATHS} THEN NULL ELSE c.wake_at END
WHERE NOT ({_DIED})
    OR (NOT {IS_LIVE.format(replica="c.replica")} AND CASE WHEN {_IS_SUSPECT} THEN {{suspects}} ELSE true END)
RETURNING id, epoch, last_seq, mail,
    mail <> coalesce((SELECT s.mail FROM conversations s WHERE s.id = c.id), 0)
        OR EXISTS (SELECT 1 FROM letters l WHERE l.conversation = c.id AND l.outcome IS NULL),
    deaths,
    ARRAY(SELECT f.replica FROM followers f WHERE f.conversation = c.id AND f.replica <> $4 ORDER BY 1)"""
_CLAIM_ONE = _CLAIM.format(suspects=_MAY_TAKE_SUSPECT)
_CLAIM_MANY = _CLAIM.format(suspects="false")
_FIND_OWNER = f"""SELECT c.replica, {IS_LIVE.format(replica="c.replica")}, c.deaths,
    EXISTS (SELECT 1 FROM replicas WHERE id = $4 AND alive_until > clock_timestamp())
FROM (SELECT $1::text AS id) AS asked LEFT JOIN conversations c USING (id)"""
_FIND_SUSPECT = f"""SELECT c.id FROM conversations c WHERE c.id = ANY($1) AND {_IS_SUSPECT} AND {_DIED}
AND NOT {IS_LIVE.format(replica="c.replica")} ORDER BY c.taken_at LIMIT 1"""
# A conversation that nothing was written to counts as deleted: `maintenance` removes its row.
_RELEASE = """UPDATE conversations SET replica = '', wake_at = CASE WHEN last_seq > 0 THEN $4::float8 END,
    epoch = CASE WHEN last_seq > 0 THEN epoch ELSE -abs(epoch) END,
    taken_at = CASE WHEN last_seq > 0 THEN taken_at ELSE now() END
WHERE id = $1 AND epoch = $2 AND replica <> '' AND mail = $3 RETURNING 1"""
_HAS_OWNER = "SELECT 1 FROM conversations WHERE id = $1 AND epoch = $2 AND replica <> ''"
# What nobody owns is found by time. What the dead owned is found whenever it was due: only its owner knew more. The
# dead are listed first, each with a look into the index of what is owned: a join would read all that is owned or waits.
# The index is used only where the query repeats its condition, `replica <> ''`. Of suspects one at a time is claimed.
FIND_DUE = f"""WITH dead AS MATERIALIZED (SELECT r.id FROM replicas r WHERE NOT {LEASE_HOLDS})
(SELECT id FROM conversations WHERE replica = '' AND wake_at <= $4 ORDER BY wake_at LIMIT $1)
UNION ALL
(SELECT orphan.id FROM dead CROSS JOIN LATERAL (
    SELECT c.id FROM conversations c WHERE c.replica = dead.id AND c.replica <> '' AND c.wake_at IS NOT NULL
        AND NOT {_IS_SUSPECT} LIMIT $1
) AS orphan LIMIT $1)
UNION ALL
(SELECT suspect.id FROM dead CROSS JOIN LATERAL (
    SELECT c.id, c.taken_at FROM conversations c WHERE c.replica = dead.id AND c.replica <> '' AND c.wake_at IS NOT NULL
        AND {_IS_SUSPECT} AND {_MAY_RETRY} ORDER BY c.taken_at LIMIT 1
) AS suspect ORDER BY suspect.taken_at LIMIT 1)"""
# By process: one that has just begun a new life may still have the row of its last one.
_READ_OLDEST_FORMAT = "SELECT min(log_format) FROM replicas WHERE alive_until > now()"
_COUNT_OTHERS = "SELECT count(DISTINCT process) FROM replicas WHERE alive_until > now() AND process <> $1"
FIND_NEXT = "SELECT min(wake_at) FROM conversations WHERE replica = '' AND wake_at > $1"


class PostgresClaims(LeasedPorts):
    """Claims and releases conversations for the replica that a lease belongs to."""

    @property
    def replica(self) -> str:
        return self._lease.id

    @property
    def is_shared(self) -> bool:
        return True

    @property
    def clock_offset(self) -> float:
        return self._lease.clock_offset

    def on_lost(self, handler: Callable[[Sequence[tuple[str, int]]], None]) -> None:
        self._lease.on_lost = handler

    async def count_other_replicas(self) -> int:
        await self._lease.record_local_deaths()
        ((count,),) = await self._database.fetch(_COUNT_OTHERS, self._lease.process)
        return count

    async def read_oldest_format(self) -> int:
        ((oldest,),) = await self._database.fetch(_READ_OLDEST_FORMAT)
        return LOG_FORMAT if oldest is None else oldest

    async def ensure_lease(self) -> None:
        await self._lease.ensure()

    def list_owned(self) -> Sequence[str]:
        return list(self._lease.owned)

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        """Claim a conversation. A caller that is cancelled meanwhile does not stop it: `list_owned` names it then."""
        return await finish_anyway(self._claim(conversation))

    async def _claim(self, conversation: str) -> Claim | OwnedElsewhere:
        self._database.require_up(to_write=True)
        for _ in range(2):
            replica = self.replica
            rows = await self._database.fetch(_CLAIM_ONE, [conversation], *self._grace, replica)
            if rows:
                (claim,) = await self._take(rows, replica)
                return claim
            if answer := await self._find_owner(conversation):
                return answer
        raise Unavailable("the conversation is changing its owner; try again in a moment")

    async def claim_new(self, conversation: str) -> Claim | OwnedElsewhere:
        return await self.claim(conversation)

    async def claim_many(self, conversations: Sequence[str]) -> Sequence[Claim]:
        self._database.require_up(to_write=True)
        if not conversations:
            return ()
        replica = self.replica
        ids = sorted(set(conversations))
        claims = await self._take(await self._database.fetch(_CLAIM_MANY, ids, *self._grace, replica), replica)
        # Conversations that owners died with are left out there; one of them at a time is claimed by itself.
        suspect = await self._database.fetch_row(_FIND_SUSPECT, ids, *self._grace, replica)
        if suspect is not None:
            rows = await self._database.fetch(_CLAIM_ONE, [suspect[0]], *self._grace, replica)
            claims += await self._take(rows, replica)
        return claims

    async def release(self, conversation: str, epoch: int, last_forwarded: int, wake_at: float | None) -> bool:
        if await self._database.fetch(_RELEASE, conversation, epoch, last_forwarded, wake_at):
            self._lease.owned.pop(conversation, None)
            return True
        # Under another epoch it is not ours to release any more.
        return not await self._database.fetch(_HAS_OWNER, conversation, epoch)

    async def find_due(self, now: float, limit: int) -> tuple[Sequence[str], float | None]:
        await self._lease.record_local_deaths()
        rows = await self._database.fetch(FIND_DUE, limit, *self._grace, now)
        ((later,),) = await self._database.fetch(FIND_NEXT, now)
        return [id for (id,) in rows], later

    async def _take(self, rows: Sequence[Record], replica: str) -> list[Claim]:
        claims = [
            Claim(
                conversation=id,
                epoch=epoch,
                last_seq=last_seq,
                last_forwarded=last_forwarded,
                has_forwarded=has_forwarded,
                deaths=deaths,
                followers=tuple(followers),
            )
            for id, epoch, last_seq, last_forwarded, has_forwarded, deaths, followers in rows
        ]
        for claim in claims:
            self._lease.owned[claim.conversation] = claim.epoch
        if replica != self.replica:  # the lease was lost and begun anew while the statement ran
            for claim in claims:
                await self._lease.adopt(claim.conversation, claim.epoch, replica)
        return claims

    async def _find_owner(self, conversation: str) -> OwnedElsewhere | None:
        """Return the owner that a claim failed for; None if it should be tried again. Raises StoreDown, Unavailable."""
        row = await self._database.fetch_row(_FIND_OWNER, conversation, *self._grace, self.replica)
        if row is None:
            raise StoreDown("the database gave no answer", address=self._database.address)
        owner, is_live, deaths, has_lease = row
        if not has_lease:
            await self._lease.refresh()
            return None
        if owner and is_live:
            return OwnedElsewhere(owner)
        if owner and deaths >= MAX_DEATHS:
            raise Unavailable("every process that took up this conversation died: delete it, or look into its log")
        if owner and deaths >= SUSPECT_DEATHS - 1:
            raise Unavailable(f"{deaths} processes died with this conversation: it is taken up again after a pause")
        return None
