"""Deletes what nobody needs any more, once a minute, on one replica at a time."""

import asyncio
import random
import time
from contextlib import suppress

from toolyard.core.errors import ToolyardError
from toolyard.core.store import MAX_DEATHS
from toolyard.stores.postgres.lease import LeasedPorts
from toolyard.stores.rate_limit import TICKS_PER_S

INTERVAL_S = 60.0
OUTCOME_S = 3600.0
"""How long an outcome stays for a sender that asks again."""
_LOCK = 0x6D61696E74
_STATEMENTS = (
    # Without a row nobody would find what a replica owned. There should be none; a restored database may have some.
    """INSERT INTO replicas (id, process, alive_until)
    SELECT DISTINCT replica, '', '-infinity'::timestamptz FROM conversations c
    WHERE replica <> '' AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = c.replica) ON CONFLICT DO NOTHING""",
    # What a dead replica owned and had no reason to drive is found by nobody else.
    f"""UPDATE conversations c SET replica = '', wake_at = CASE WHEN EXISTS (
        SELECT 1 FROM letters l WHERE l.conversation = c.id AND l.outcome IS NULL) THEN 0 END
    FROM replicas r WHERE r.id = c.replica AND c.replica <> '' AND r.alive_until < now() - interval '1 minute'
    AND c.wake_at IS NULL AND c.deaths < {MAX_DEATHS}""",
    """DELETE FROM replicas r WHERE alive_until < now() - interval '1 hour'
    AND NOT EXISTS (SELECT 1 FROM conversations c WHERE c.replica = r.id AND c.replica <> '')""",
    # A request without a conversation of its own leaves the row of a deleted one behind.
    "DELETE FROM conversations WHERE epoch < 0 AND taken_at < now() - interval '1 hour'",
    "DELETE FROM followers f WHERE NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = f.replica)",
)
_DROP_OUTCOMES = "DELETE FROM letters WHERE outcome IS NOT NULL AND answered_at < now() - make_interval(secs => $1)"
_DROP_RATES = "DELETE FROM rates WHERE free_at < per_minute * ($1::bigint)::numeric"


class Maintenance(LeasedPorts):
    async def run(self) -> None:
        """Tidy up every minute, at random times, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S * random.uniform(0.5, 1.5))
            with suppress(ToolyardError):
                await self.tidy_up()

    async def tidy_up(self) -> None:
        """Tidy up once, unless another replica is at it. Raises StoreDown."""
        async with self._database.transaction() as connection:
            if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
                return
            if self._lease.may_sweep:
                for statement in _STATEMENTS:
                    await connection.execute(statement)
            await connection.execute(_DROP_OUTCOMES, OUTCOME_S)
            now = time.time() + self._lease.clock_offset
            await connection.execute(_DROP_RATES, int(now * TICKS_PER_S))
