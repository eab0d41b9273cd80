"""What every store promises of API keys, access tokens and rate limits; each promise has a store that breaks it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from contracts.store_contract import (
    OpenStore,
    Promise,
    check_promise,
    claim,
    every_store,
    expect_break,
    get_function_name,
)
from toolyard.core.store import (
    AccessToken,
    Allowance,
    Key,
    Store,
)
from toolyard.stores.memory import MemoryStore


async def a_key_is_kept_by_name_until_it_is_revoked(store: Store) -> None:
    plain = Key(name="shop", hash="h1", user="shop")
    full = Key(
        name="app",
        hash="h2",
        user="世界",
        roles=frozenset({"admin", "approver"}),
        tenant="acme",
        divisions=frozenset({"north"}),
        trusted=True,
        created_at=1.5,
    )
    assert list(await store.keys()) == []
    await store.save_key(plain)
    await store.save_key(full)
    assert list(await store.keys()) == [full, plain]
    newer = replace(plain, hash="h3")
    await store.save_key(newer)
    assert list(await store.keys()) == [full, newer]
    assert await store.revoke_key("app") is True
    assert await store.revoke_key("app") is False
    assert list(await store.keys()) == [newer]


async def a_token_is_read_by_its_hash_until_it_is_deleted_or_its_conversation_is(store: Store) -> None:
    await claim(store, "c")
    session = AccessToken(kind="session", hash="h1", created_at=1.0, expires_at=5.0, body=b"\x00\xff")
    share = AccessToken(kind="share", hash="h1", created_at=2.0, expires_at=9.0, conversation="c", body=b"{}")
    later = replace(share, hash="h0", created_at=3.0)
    for token in (session, later, share):
        await store.save_token(token)
    await store.save_token(replace(share, hash="h2", conversation="unknown"))
    assert await store.read_token("session", "h1") == session
    assert await store.read_token("share", "h1") == share
    assert await store.read_token("session", "h0") is await store.read_token("share", "h2") is None
    assert list(await store.list_tokens("share", "c")) == [share, later]
    assert list(await store.list_tokens("session", "")) == [session]
    assert list(await store.list_tokens("share", "")) == list(await store.list_tokens("session", "c")) == []
    await store.extend_token("session", "h1", 8.0)
    assert await store.read_token("session", "h1") == replace(session, expires_at=8.0)
    await store.delete_token("share", "h1")
    assert list(await store.list_tokens("share", "c")) == [later]
    await store.delete_conversation("c")
    assert await store.read_token("share", "h0") is None
    await store.save_token(replace(share, hash="h3"))
    assert await store.read_token("share", "h3") is None, "of a conversation that was deleted"
    assert await store.read_token("session", "h1") is not None


async def a_deleted_token_is_not_revived_and_an_expired_one_makes_room(store: Store) -> None:
    session = AccessToken(kind="session", hash="h1", created_at=1.0, expires_at=5.0)
    await store.save_token(session)
    await store.delete_token("session", "h1")
    await store.extend_token("session", "h1", 9.0)
    assert await store.read_token("session", "h1") is None
    await store.save_token(session)
    await store.save_token(replace(session, hash="h2", created_at=5.0, expires_at=6.0))
    assert await store.read_token("session", "h1") is None
    assert await store.read_token("session", "h2") is not None


async def a_rate_limit_is_exact_at_the_boundary(store: Store) -> None:
    now = 1_700_000_000.123456
    left = [await store.take_allowance("ana", 30, now) for _ in range(30)]
    assert [allowance.remaining for allowance in left] == list(range(29, -1, -1))
    assert all(allowance.granted and not allowance.retry_after_s for allowance in left)
    too_many = Allowance(granted=False, remaining=0, retry_after_s=2.0)
    assert [await store.take_allowance("ana", 30, now) for _ in range(3)] == [too_many] * 3
    assert await store.take_allowance("ana", 30, now + 1.5) == replace(too_many, retry_after_s=0.5)
    for later in (2.0, 4.0):
        assert await store.take_allowance("ana", 30, now + later) == Allowance(
            granted=True, remaining=0, retry_after_s=0.0
        )
        assert await store.take_allowance("ana", 30, now + later) == too_many
    assert (await store.take_allowance("bo", 30, now)).remaining == 29
    await store.return_allowance("bo", 30)
    await store.return_allowance("nobody", 30)
    for returned in range(3):
        assert (await store.take_allowance("bo", 30, now)).remaining == 29, returned
        await store.return_allowance("bo", 30)
    assert (await store.take_allowance("ana", 30, now + 64.0)).remaining == 29


class FirstKeyStore(MemoryStore):
    """Does not replace a key."""

    async def save_key(self, key: Key) -> None:
        if key.name not in [stored.name for stored in await self.keys()]:
            await super().save_key(key)


class KeepsTokensStore(MemoryStore):
    """Keeps the tokens of what it should forget."""

    async def delete_conversation(self, conversation: str) -> Sequence[str]:
        tokens = self._data.tokens
        replicas = await super().delete_conversation(conversation)
        self._data.tokens = tokens
        return replicas


class RevivesTokensStore(MemoryStore):
    """Writes a token whose expiry is set as if it were new."""

    async def extend_token(self, kind: str, hash: str, expires_at: float) -> None:
        self._data.tokens[kind, hash] = AccessToken(kind=kind, hash=hash, created_at=0.0, expires_at=expires_at)


class MinuteCountStore(MemoryStore):
    """Counts anew each minute."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[tuple[str, float], int] = {}

    async def take_allowance(self, key: str, per_minute: int, now: float) -> Allowance:
        count = self.counts[key, now // 60] = self.counts.get((key, now // 60), 0) + 1
        late = count > per_minute
        return Allowance(
            granted=not late, remaining=max(per_minute - count, 0), retry_after_s=60 - now % 60 if late else 0.0
        )


BROKEN_BY: dict[Promise, type[MemoryStore]] = {
    a_key_is_kept_by_name_until_it_is_revoked: FirstKeyStore,
    a_token_is_read_by_its_hash_until_it_is_deleted_or_its_conversation_is: KeepsTokensStore,
    a_deleted_token_is_not_revived_and_an_expired_one_makes_room: RevivesTokensStore,
    a_rate_limit_is_exact_at_the_boundary: MinuteCountStore,
}


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
@every_store
async def test_every_store_keeps_every_promise(open_store: OpenStore, promise: Promise, tmp_path: Path) -> None:
    async with open_store(tmp_path) as store:
        await check_promise(promise, store)


@pytest.mark.parametrize("promise", BROKEN_BY, ids=get_function_name)
async def test_a_store_that_breaks_the_promise_is_found_out(promise: Promise) -> None:
    await expect_break(promise, BROKEN_BY[promise]())
