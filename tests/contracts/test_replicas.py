"""What a shared store promises to its replicas. Each promise is broken by a store made to break it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import asyncpg
import pytest
from msgspec.structs import replace

from contracts.store_contract import (
    append,
    append_events,
    assert_refused,
    claim,
    find_due,
    get_function_name,
    make_entries,
    read_seqs,
)
from contracts.test_store_ownership import CountsItselfStore
from contracts.test_store_records import OverwritesRecordsStore, UnlockedStore
from contracts.test_store_requests import ForgetfulRequestStore, find_winner, with_replacement, with_request
from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from support import find_break
from toolyard.core.conversation.events import RunEnded
from toolyard.core.errors import Fenced, NotFound, RequestRepeated, Unavailable
from toolyard.core.store import (
    MAX_MESSAGE_BYTES,
    Allowance,
    Append,
    Claim,
    CommandAnswer,
    ForwardedCommand,
    FutureLike,
    Key,
    LogHead,
    OwnedElsewhere,
    Store,
)
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery, AuditRecord, seal_record
from toolyard.stores.postgres import PostgresStore
from toolyard.stores.rate_limit import GcraLimiter

EndLease = Callable[[Store], Awaitable[None]]
"""Lets the other replicas take over what a store owns, as if its process had died."""
ReplicaPromise = Callable[[Store, Store, EndLease], Awaitable[None]]


async def claim_fully(store: Store, conversation: str) -> Claim:
    answer = await store.claim(conversation)
    assert isinstance(answer, Claim), f"{conversation} is owned by {answer.replica}"
    return answer


async def a_claim_leaves_alone_what_a_living_replica_owns(first: Store, second: Store, end_lease: EndLease) -> None:
    assert first.is_shared and first.replica != second.replica
    epoch = await claim(first, "c")
    assert await second.claim("c") == OwnedElsewhere(first.replica)
    assert list(await second.claim_many(["c"])) == []
    await append(first, "c", epoch, make_entries("c", 1), 0.0)
    assert await find_due(second, 9.0) == ([], None)
    assert await append(first, "c", epoch, make_entries("c", 2), 7.0, release=True) is True
    assert await find_due(second, 9.0) == (["c"], None)
    claims = await second.claim_many(["c", "new"])
    assert [(answer.conversation, answer.last_seq) for answer in claims] == [("c", 2), ("new", 0)]
    assert claims[0].epoch == epoch + 1
    await assert_refused(Fenced, append(first, "c", epoch, make_entries("c", 3), None))
    assert await first.claim("c") == OwnedElsewhere(second.replica)


async def a_race_for_a_conversation_has_one_winner(first: Store, second: Store, end_lease: EndLease) -> None:
    for name in ("a", "b", "c", "d"):
        answers = await asyncio.gather(first.claim(name), second.claim(name))
        assert sorted(type(answer).__name__ for answer in answers) == ["Claim", "OwnedElsewhere"]
        for store, answer in zip((first, second), answers, strict=True):
            if isinstance(answer, Claim):
                await append(store, name, answer.epoch, make_entries(name, 1), None)
            else:
                assert answer.replica not in ("", store.replica)


async def what_the_dead_owned_is_taken_over_and_fenced(first: Store, second: Store, end_lease: EndLease) -> None:
    epoch = await claim(first, "c")
    await append(first, "c", epoch, make_entries("c", 1), 50.0)
    await end_lease(first)
    assert (await find_due(second, 9.0))[0] == ["c"], "only its owner knew why it waited"
    answer = await claim_fully(second, "c")
    assert (answer.epoch, answer.deaths) == (epoch + 1, 1)
    await assert_refused(Fenced, append(first, "c", epoch, make_entries("c", 2), None))
    await append(second, "c", answer.epoch, make_entries("c", 2), 0.0)
    assert (await claim_fully(second, "c")).deaths == 1, "a run that goes on keeps count"
    await append_events(second, "c", RunEnded(ending="done"))
    assert (await claim_fully(second, "c")).deaths == 0


async def the_others_that_live_are_counted(first: Store, second: Store, end_lease: EndLease) -> None:
    assert [await store.count_other_replicas() for store in (first, second)] == [1, 1]
    await end_lease(first)
    assert await second.count_other_replicas() == 0
    await second.close()
    assert await first.count_other_replicas() == 0


async def a_forwarded_command_is_answered_together_with_the_entries(
    first: Store, second: Store, end_lease: EndLease
) -> None:
    await assert_refused(NotFound, second.forward_command("nobody", "k", b"x"))
    epoch = await claim(first, "c")
    assert await second.forward_command("c", "k1", b"one\0") == first.replica
    assert await second.forward_command("c", "k2", b"two") == first.replica
    assert list(await first.find_forwarded()) == ["c"] and list(await second.find_forwarded()) == []
    last, commands = await first.read_forwarded("c", epoch)
    assert last == 2
    assert [(command.number, command.key, command.sender, command.body) for command in commands] == [
        (1, "k1", second.replica, b"one\0"),
        (2, "k2", second.replica, b"two"),
    ]
    answers = [CommandAnswer(number=1, outcome=b"done")]
    await first.append(Append(conversation="c", epoch=epoch, entries=make_entries("c", 1), answers=answers))
    assert await second.read_outcome("c", "k1") == b"done"
    assert await second.read_outcome("c", "k2") is None
    await first.answer_forwarded("c", epoch, CommandAnswer(number=2, outcome=b"refused"))
    assert await second.read_outcome("c", "k2") == b"refused"
    assert list((await first.read_forwarded("c", epoch))[1]) == [] == list(await first.find_forwarded())
    await second.forward_command("c", "k3", b"three")
    late = [CommandAnswer(number=3, outcome=b"no")]
    torn = Append(conversation="c", epoch=epoch, entries=make_entries("c", 9), answers=late)
    await assert_refused(Fenced, first.append(torn))
    assert await second.read_outcome("c", "k3") is None


async def a_forwarded_command_keeps_its_conversation_from_being_released_unread(
    first: Store, second: Store, end_lease: EndLease
) -> None:
    epoch = await claim(first, "c")
    await second.forward_command("c", "k", b"x")
    assert await append(first, "c", epoch, make_entries("c", 1), None, release=True) is False
    assert not await first.release("c", epoch, 0, None)
    assert await second.claim("c") == OwnedElsewhere(first.replica)
    assert await first.release("c", epoch, 1, None)
    await assert_refused(Fenced, first.read_forwarded("c", epoch))
    await assert_refused(Fenced, first.answer_forwarded("c", epoch, CommandAnswer(number=1, outcome=b"late")))
    answer = await claim_fully(second, "c")
    assert (answer.last_forwarded, answer.has_forwarded) == (1, True)
    await second.answer_forwarded("c", answer.epoch, CommandAnswer(number=1, outcome=b"x"))
    answer = await claim_fully(second, "c")
    assert answer.has_forwarded is False
    assert await second.release("c", answer.epoch, 1, None)
    assert await first.forward_command("c", "k2", b"x") == ""
    assert await find_due(first, 0.0) == (["c"], None), "somebody has to read it"


async def a_forwarded_command_is_withdrawn_only_while_nobody_has_read_it(
    first: Store, second: Store, end_lease: EndLease
) -> None:
    epoch = await claim(first, "c")
    await second.forward_command("c", "unread", b"x")
    assert await second.withdraw("c", "unread") is None
    assert await first.read_forwarded("c", epoch) == (1, [])
    await second.forward_command("c", "read", b"x")
    await first.read_forwarded("c", epoch)
    await assert_refused(Unavailable, second.withdraw("c", "read"))
    await first.answer_forwarded("c", epoch, CommandAnswer(number=2, outcome=b"done"))
    assert await second.withdraw("c", "read") == b"done"
    assert await second.withdraw("c", "nothing") is None


async def forwarded_commands_that_wait_are_bounded(first: Store, second: Store, end_lease: EndLease) -> None:
    epoch = await claim(first, "c")
    for number in range(256):
        await second.forward_command("c", f"k{number}", b"x")
    await assert_refused(Unavailable, second.forward_command("c", "one more", b"x"))
    _, commands = await first.read_forwarded("c", epoch)
    assert [command.number for command in commands] == list(range(1, 257))
    answers = [CommandAnswer(number=command.number, outcome=b"") for command in commands]
    await first.append(Append(conversation="c", epoch=epoch, answers=answers))
    assert await second.forward_command("c", "one more", b"x") == first.replica


async def followers_are_named_to_the_next_owner_and_see_where_logs_end(
    first: Store, second: Store, end_lease: EndLease
) -> None:
    assert await second.follow("c") is None
    epoch = await claim(first, "c")
    await append(first, "c", epoch, make_entries("c", 1, 2), None)
    assert await second.follow("c") == LogHead(last_seq=2, epoch=epoch, replica=first.replica)
    await first.follow("c")
    assert (await claim_fully(first, "c")).followers == (second.replica,), "it knows of its own readers"
    await second.unfollow("c")
    answer = await claim_fully(first, "c")
    assert answer.followers == ()
    await first.release("c", answer.epoch, 0, None)
    assert await second.read_heads(["c", "nobody"]) == {"c": LogHead(last_seq=2, epoch=answer.epoch)}


async def deleting_tells_whom_it_concerns(first: Store, second: Store, end_lease: EndLease) -> None:
    epoch = await claim(first, "owned")
    await second.follow("owned")
    assert list(await second.delete_conversation("owned")) == [first.replica]
    await assert_refused(Fenced, append(first, "owned", epoch, make_entries("owned", 1), None))
    await claim(first, "followed")
    await second.follow("followed")
    assert list(await first.delete_conversation("followed")) == [second.replica]
    head = (await second.read_heads(["followed"]))["followed"]
    assert head.epoch < 0 and not head.replica
    await assert_refused(NotFound, second.forward_command("followed", "k", b"x"))


async def a_change_of_records_or_keys_raises_their_version(first: Store, second: Store, end_lease: EndLease) -> None:
    before = dict(await second.read_versions())
    await first.set_record("server", "a", b"1")
    await first.save_key(Key(name="k", hash="h", user="u"))
    middle = dict(await second.read_versions())
    assert [middle[kind] > before.get(kind, 0) for kind in ("server", "key")] == [True, True]
    assert [key.name for key in await second.keys()] == ["k"]
    assert list(await second.list_records("server")) == [("a", b"1")]
    await second.revoke_key("k")
    await second.delete_record("server", "a")
    after = dict(await first.read_versions())
    assert [after[kind] > middle[kind] for kind in ("server", "key")] == [True, True]
    assert list(await first.keys()) == []


async def a_record_that_replicas_add_at_once_is_one(first: Store, second: Store, end_lease: EndLease) -> None:
    names = [f"name-{number}" for number in range(20)]
    before = dict(await second.read_versions())
    stored = await asyncio.gather(
        first.add_records("name", dict.fromkeys(names, b"first")),
        second.add_records("name", dict.fromkeys(reversed(names), b"second")),
    )
    assert dict(stored[0]) == dict(stored[1]) == dict(await first.list_records("name"))
    assert dict(await first.read_versions())["name"] > before.get("name", 0)


async def a_lock_is_held_across_replicas(first: Store, second: Store, end_lease: EndLease) -> None:
    steps: list[str] = []
    entered = asyncio.Event()

    async def hold() -> None:
        async with first.lock("oauth", "server"):
            entered.set()
            async with second.lock("oauth", "another"):
                await asyncio.sleep(0)
                steps.append("first")

    async def wait() -> None:
        await entered.wait()
        async with second.lock("oauth", "server"):
            steps.append("second")

    await asyncio.gather(wait(), hold())
    assert steps == ["first", "second"]


async def a_rate_limit_is_shared(first: Store, second: Store, end_lease: EndLease) -> None:
    now = 1_700_000_000.0
    for caller in ("ana", "bo", "cy"):  # some of their requests meet in the middle of a statement
        takes = [store.take_allowance(caller, 30, now) for _ in range(25) for store in (first, second)]
        allowances = await asyncio.gather(*takes)
        assert sorted(allowance.remaining for allowance in allowances if allowance.granted) == list(range(30))
        too_many = Allowance(granted=False, remaining=0, retry_after_s=2.0)
        assert [allowance for allowance in allowances if not allowance.granted] == [too_many] * 20


async def a_message_reaches_the_replica_that_it_is_for(first: Store, second: Store, end_lease: EndLease) -> None:
    messages: dict[str, list[bytes]] = {"first": [], "second": []}
    first.listen(messages["first"].append)
    second.listen(messages["second"].append)
    body, large = '{"text": "世\\u0000"}'.encode(), b"x" * MAX_MESSAGE_BYTES

    async def tell_until_it_arrives(store: Store, message: bytes, arrived: list[bytes]) -> None:
        while message not in arrived:  # a hint may be lost, as before the other one listens
            first.tell(store.replica, message)
            first.tell("nobody.1", b"lost")
            await asyncio.sleep(0.01)

    async with asyncio.timeout(10):
        await tell_until_it_arrives(second, body, messages["second"])
        await tell_until_it_arrives(first, large, messages["first"])
    assert (set(messages["first"]), set(messages["second"])) == ({large}, {body})


async def a_request_is_taken_over_at_one_replica_only(first: Store, second: Store, end_lease: EndLease) -> None:
    failed = replace(with_request(make_entries("c", 1)[0], "k"), run="failed")
    await append(first, "c", await claim(first, "c"), [failed], None)
    mine, other = await claim(first, "d"), await claim(second, "e")
    winner = await find_winner(
        second,
        append(first, "d", mine, [with_replacement("d", "d", "failed")], None),
        append(second, "e", other, [with_replacement("e", "e", "failed")], None),
    )
    assert winner in ("d", "e")


async def a_request_takes_effect_at_one_replica_only(first: Store, second: Store, end_lease: EndLease) -> None:
    mine, other = await claim(first, "c"), await claim(second, "d")
    outcomes = await asyncio.gather(
        append(first, "c", mine, [with_request(make_entries("c", 1)[0], "k")], None),
        append(first, "e", await claim(first, "e"), [with_request(make_entries("e", 1)[0], "other")], None),
        append(second, "d", other, [with_request(make_entries("d", 1)[0], "k")], None),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [RequestRepeated]
    assert len(await read_seqs(first, "c")) + len(await read_seqs(first, "d")) == 1


async def a_replica_that_closes_leaves_nothing_owned(first: Store, second: Store, end_lease: EndLease) -> None:
    epoch = await claim(first, "c")
    await append(first, "c", epoch, make_entries("c", 1), 0.0)
    await first.close()
    assert await find_due(second, 9.0) == (["c"], None)
    assert (await claim_fully(second, "c")).deaths == 0, "to close is not to die"


class StealingStore(SharedMemoryStore):
    """Claims whatever it is asked to."""

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        self.database.sharing[conversation].replica = ""
        return await super().claim(conversation)


class ImmortalStore(SharedMemoryStore):
    """Counts no deaths."""

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        answer = await super().claim(conversation)
        return replace(answer, deaths=0) if isinstance(answer, Claim) else answer


class AnswersFirstStore(SharedMemoryStore):
    """Stores the outcome of a command, then sees whether the entries may be stored."""

    async def append(self, append: Append) -> bool:
        for answer in append.answers:
            self.database.sharing[append.conversation].store_outcome(answer)
        return await super().append(append)


class ReleasesAlwaysStore(SharedMemoryStore):
    """Looks at no commands before it releases."""

    def begin_append(self, append: Append) -> FutureLike:
        last = self.database.sharing[append.conversation].last_forwarded
        return super().begin_append(replace(append, release_at=None if append.release_at is None else last))


class WithdrawsAlwaysStore(SharedMemoryStore):
    """Withdraws a command that was read, too."""

    async def read_forwarded(self, conversation: str, epoch: int) -> tuple[int, Sequence[ForwardedCommand]]:
        answer = await super().read_forwarded(conversation, epoch)
        self.database.sharing[conversation].last_read = 0
        return answer


class UnboundedForwardingStore(SharedMemoryStore):
    """Says nothing when there are too many commands."""

    async def forward_command(self, conversation: str, key: str, body: bytes) -> str:
        with suppress(Unavailable):
            return await super().forward_command(conversation, key, body)
        return ""


async def audit_entries_of_replicas_are_one_chain(first: Store, second: Store, end_lease: EndLease) -> None:
    records = [AuditRecord(at=float(number), action="key.add", target=str(number)) for number in range(10)]
    await asyncio.gather(*(store.append_audit(record) for record in records for store in (first, second)))
    entries = await second.read_audit(AuditQuery(oldest_first=True))
    assert find_break(entries) == ""
    assert [entry.number for entry in entries] == list(range(1, 21))
    assert len({(entry.target, entry.number) for entry in entries}) == 20


class NoFollowersStore(SharedMemoryStore):
    """Names no followers."""

    async def claim(self, conversation: str) -> Claim | OwnedElsewhere:
        answer = await super().claim(conversation)
        return replace(answer, followers=()) if isinstance(answer, Claim) else answer

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        await super().delete_conversation(conversation)
        return ()


class UnversionedStore(SharedMemoryStore):
    """Shows the same versions for ever."""

    async def read_versions(self) -> Mapping[str, int]:
        return {"server": 1, "key": 1}


class OwnLimitStore(SharedMemoryStore):
    """Limits each replica by itself."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        super().__init__(database)
        self.limits = GcraLimiter()

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        return self.limits.take_allowance(key, per_minute, now)


class BroadcastStore(SharedMemoryStore):
    """Tells everybody."""

    def tell(self, replica: str, body: bytes) -> None:
        for name in self.database.stores:
            super().tell(name, body)


class KeepsOnCloseStore(SharedMemoryStore):
    """Keeps what it owns."""

    async def close(self) -> None:
        self._closed = True


class OwnAuditStore(SharedMemoryStore):
    """Continues the chain from the last entry of its own."""

    async def append_audit(self, record: AuditRecord) -> AuditEntry:
        own = self.__dict__.setdefault("own", list[AuditEntry]())
        entry = seal_record(record, own[-1] if own else None)
        own.append(entry)
        self.database.audit.append(entry)
        return entry


BROKEN_BY: dict[ReplicaPromise, type[SharedMemoryStore]] = {
    a_claim_leaves_alone_what_a_living_replica_owns: StealingStore,
    a_race_for_a_conversation_has_one_winner: StealingStore,
    what_the_dead_owned_is_taken_over_and_fenced: ImmortalStore,
    the_others_that_live_are_counted: CountsItselfStore,
    a_forwarded_command_is_answered_together_with_the_entries: AnswersFirstStore,
    a_forwarded_command_keeps_its_conversation_from_being_released_unread: ReleasesAlwaysStore,
    a_forwarded_command_is_withdrawn_only_while_nobody_has_read_it: WithdrawsAlwaysStore,
    forwarded_commands_that_wait_are_bounded: UnboundedForwardingStore,
    followers_are_named_to_the_next_owner_and_see_where_logs_end: NoFollowersStore,
    deleting_tells_whom_it_concerns: NoFollowersStore,
    a_change_of_records_or_keys_raises_their_version: UnversionedStore,
    a_record_that_replicas_add_at_once_is_one: OverwritesRecordsStore,
    a_lock_is_held_across_replicas: UnlockedStore,
    a_rate_limit_is_shared: OwnLimitStore,
    a_message_reaches_the_replica_that_it_is_for: BroadcastStore,
    a_request_takes_effect_at_one_replica_only: ForgetfulRequestStore,
    a_request_is_taken_over_at_one_replica_only: ForgetfulRequestStore,
    audit_entries_of_replicas_are_one_chain: OwnAuditStore,
    a_replica_that_closes_leaves_nothing_owned: KeepsOnCloseStore,
}


async def check_replicas(promise: ReplicaPromise, first: Store, second: Store, end_lease: EndLease) -> None:
    try:
        await promise(first, second, end_lease)
    finally:
        await first.close()
        await second.close()


async def end_memory_lease(store: Store) -> None:
    assert isinstance(store, SharedMemoryStore)
    store.lose_lease()


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_replicas_of_a_memory_store_keep_every_promise(promise: ReplicaPromise) -> None:
    database = MemoryDatabase()
    await check_replicas(promise, SharedMemoryStore(database), SharedMemoryStore(database), end_memory_lease)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_replicas_on_postgresql_keep_every_promise(promise: ReplicaPromise, postgres_url: str) -> None:
    async def end_lease(store: Store) -> None:
        connection = await asyncpg.connect(postgres_url)
        try:
            await connection.execute("UPDATE replicas SET alive_until = '-infinity' WHERE id = $1", store.replica)
        finally:
            await connection.close()

    first, second = [await PostgresStore.open(postgres_url) for _ in range(2)]
    await check_replicas(promise, first, second, end_lease)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_replicas_that_break_the_promise_are_found_out(promise: ReplicaPromise) -> None:
    database, broken = MemoryDatabase(), BROKEN_BY[promise]
    with pytest.raises(AssertionError):
        await check_replicas(promise, broken(database), broken(database), end_memory_lease)
