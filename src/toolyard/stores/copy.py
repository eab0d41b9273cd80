"""Copy a store to another one, of whatever kind: logs, whole results, keys, records, figures, budgets and usage,
through their ports.

Lists, traces and requests are not copied: the target projects them from the entries, as it does with new ones. What is
only of the moment or can be made again is left: rate limits, snapshots, the record of the readiness probe, and the
sessions of people who are signed in.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolyard.core.errors import Misconfigured, Unavailable
from toolyard.core.store import SHARE, Append, Claim, CopyableStore
from toolyard.core.store.audit_chain import AuditQuery

ENTRIES_PER_APPEND = 500
CONVERSATIONS_PER_PAGE = 200
FIGURES_PER_PAGE = 500
AUDIT_PER_PAGE = 500
AT_ONCE = 16
"""Conversations that are copied at the same time: the target commits their appends together."""
MOMENTARY_KINDS = frozenset({"readiness"})
EncodeRecord = Callable[[str, str, bytes], bytes]
"""Returns the body of a record, of this kind and name, for the target. Raises ToolyardError if it must not be there."""


@dataclass(slots=True)
class CopyCounts:
    """How much was copied so far."""

    conversations: int = 0
    entries: int = 0
    blobs: int = 0
    keys: int = 0
    records: int = 0
    figures: int = 0
    audit: int = 0
    usage: int = 0


async def copy_store(
    source: CopyableStore, target: CopyableStore, report: Callable[[CopyCounts], None], encode_record: EncodeRecord
) -> CopyCounts:
    """Copy everything, and call `report` now and then.

    Raises Misconfigured before anything is written if the stores are in use or the target is not empty.
    """
    await _require_unused(source, "source")
    await _require_unused(target, "target")
    await _require_empty(target)
    counts = CopyCounts()
    # All of them before the first is written: they are few, and one may be refused.
    records = [
        (kind, name, encode_record(kind, name, body))
        for kind in await _list_kinds(source)
        for name, body in await source.list_records(kind)
    ]
    for key in await source.keys():
        await target.save_key(key)
        counts.keys += 1
    for kind, name, body in records:
        await target.set_record(kind, name, body)
        counts.records += 1
    while figures := await source.list_figures(counts.figures, FIGURES_PER_PAGE):
        await target.add_figures(figures)
        counts.figures += len(figures)
    await _copy_ledger(source, target, counts)
    last_number = 0
    while entries := await source.read_audit(AuditQuery(cursor=last_number, oldest_first=True, limit=AUDIT_PER_PAGE)):
        await target.copy_audit(entries)
        last_number = entries[-1].number
        counts.audit += len(entries)
    last = ""
    while page := await source.list_stored_conversations(last, CONVERSATIONS_PER_PAGE):
        for start in range(0, len(page), AT_ONCE):
            await _copy_at_once(source, target, page[start : start + AT_ONCE], counts)
        last = page[-1][0]
        report(counts)
    return counts


async def _copy_ledger(source: CopyableStore, target: CopyableStore, counts: CopyCounts) -> None:
    """Copy what was spent and used. What open turns have reserved is left: they reserve again in the target."""
    while (await source.settle_reservations(0.0, FIGURES_PER_PAGE))[0]:
        pass
    copied = 0
    while balances := await source.list_balances(copied, FIGURES_PER_PAGE):
        await target.copy_ledger(balances, ())
        copied += len(balances)
    while usage := await source.list_usage(counts.usage, FIGURES_PER_PAGE):
        await target.copy_ledger((), usage)
        counts.usage += len(usage)


async def _require_unused(store: CopyableStore, role: str) -> None:
    if replicas := await store.count_other_replicas():
        others = f"{replicas} other process{'es' * (replicas > 1)}"
        raise Misconfigured(f"the {role} is in use by {others}: stop its servers first")


async def _require_empty(target: CopyableStore) -> None:
    has_audit = await target.read_audit(AuditQuery(limit=1))
    if has_audit or await target.list_stored_conversations("", 1) or await target.keys() or await _list_kinds(target):
        raise Misconfigured("the target holds data already: give an empty one, as a copy never merges two stores")


async def _list_kinds(store: CopyableStore) -> list[str]:
    return [kind for kind in await store.list_record_kinds() if kind not in MOMENTARY_KINDS]


async def _copy_at_once(
    source: CopyableStore, target: CopyableStore, page: Sequence[tuple[str, float | None]], counts: CopyCounts
) -> None:
    try:
        async with asyncio.TaskGroup() as copies:
            for conversation, wake_at in page:
                copies.create_task(_copy_conversation(source, target, conversation, wake_at, counts))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # one reason is enough, in its own words


async def _copy_conversation(
    source: CopyableStore, target: CopyableStore, conversation: str, wake_at: float | None, counts: CopyCounts
) -> None:
    claim = await _claim(target, conversation)
    for handle in await source.list_blob_handles(conversation):
        if (body := await source.get_blob(conversation, handle)) is not None:
            await target.put_blob(conversation, handle, body)
            counts.blobs += 1
    for token in await source.list_tokens(SHARE, conversation):
        await target.save_token(token)
    last_seq = last_epoch = 0
    while entries := await source.read(conversation, last_seq, ENTRIES_PER_APPEND):
        # Due only with the last append: until then it is not whole.
        await target.append(Append(conversation=conversation, epoch=claim.epoch, entries=entries))
        last_seq, last_epoch = entries[-1].seq, max(last_epoch, *(entry.epoch for entry in entries))
        counts.entries += len(entries)
    # An open call is lost if its epoch is not that of the owner. An epoch of the log that came again would let a later
    # owner wait for a call of another life as if it were its own. The first epoch of a row is the time in milliseconds,
    # so that this happens only if a clock is wrong.
    if claim.epoch < last_epoch:
        raise Unavailable("the clock of the target is behind that of the source: set it right, and copy again")
    await target.append(
        Append(conversation=conversation, epoch=claim.epoch, wake_at=wake_at, release_at=claim.last_forwarded)
    )
    counts.conversations += 1


async def _claim(target: CopyableStore, conversation: str) -> Claim:
    claim = await target.claim(conversation)
    if not isinstance(claim, Claim):
        raise Unavailable(f"the target is in use by {claim.replica}: stop its servers first")
    return claim
