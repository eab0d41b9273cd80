"""Keys in time: when they are accepted, what they are limited to, how they are rotated, and when they were used."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from support import SettableClock
from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, Invalid, NotFound, Refused, Unauthenticated
from toolyard.core.settings.limits import SessionLimits
from toolyard.core.store import Key
from toolyard.engine.access.authentication import KEY_USES, USE_WRITTEN_EVERY_S, Authenticator, hash_key
from toolyard.engine.access.sessions import Sessions
from toolyard.stores.memory import MemoryStore

NOW = 1_000_000.0
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "access.md"


class KeyUseCountingStore(MemoryStore):
    """A store that counts how often the use of a key is written."""

    def __init__(self) -> None:
        super().__init__()
        self.uses = 0

    async def set_record(self, kind: str, name: str, body: bytes) -> None:
        self.uses += kind == KEY_USES
        await super().set_record(kind, name, body)


class KeyBench:
    """Keys and sessions on a store in memory, with a clock that a test sets."""

    def __init__(self, *keys: Key, **options: object) -> None:
        self.clock, self.store = SettableClock(NOW), KeyUseCountingStore()
        self.access = Authenticator(self.store, self.clock, configured=keys, **options)  # pyright: ignore[reportArgumentType]
        limits = SessionLimits(idle_s=1e6, total_s=1e6)
        self.sessions = Sessions(self.store, self.access, self.clock, limits, self._ignore_failure)

    async def _ignore_failure(self, address: str) -> None:
        """Failed sign-ins are counted elsewhere."""

    def authenticate(self, secret: str, **headers: str) -> Caller:
        return self.access.authenticate({"x-api-key": secret, **headers})

    def accepts(self, secret: str) -> bool:
        try:
            self.authenticate(secret)
        except Unauthenticated:
            return False
        return True

    async def accepts_session(self, token: str) -> bool:
        return await self.sessions.is_open(token)


def make_key(name: str, *roles: str, **more: object) -> Key:
    return Key(name=name, hash=hash_key(name), user=name, roles=frozenset(roles), **more)  # pyright: ignore[reportArgumentType]


async def test_a_key_is_accepted_from_its_beginning_to_its_end_and_so_are_its_sessions() -> None:
    bench = KeyBench(make_key("ann", not_before=NOW + 10, expires_at=NOW + 20), make_key("root", "admin"))
    with pytest.raises(Unauthenticated, match="not valid yet"):
        bench.authenticate("ann")
    with pytest.raises(Unauthenticated, match="not valid yet"):
        await bench.sessions.open("ann", "::1", {})
    bench.clock.time = NOW + 10
    assert bench.authenticate("ann").user == "ann"
    token = await bench.sessions.open("ann", "::1", {})
    bench.clock.time = NOW + 19.9
    assert bench.accepts("ann") and await bench.accepts_session(token)
    bench.clock.time = NOW + 20
    with pytest.raises(Unauthenticated, match="expired"):
        bench.authenticate("ann")
    assert not await bench.accepts_session(token)
    assert not bench.access.is_local, "a server whose keys have expired lets nobody in"


async def test_of_a_rotated_key_both_secrets_are_accepted_for_the_overlap_and_then_the_new_one() -> None:
    bench = KeyBench(make_key("root", "admin"))
    _, old = await bench.access.add(make_key("shop"))
    session = await bench.sessions.open(old, "::1", {})
    rotated, new = await bench.access.rotate("shop", 60)
    assert old != new and (rotated.name, rotated.user, rotated.previous_until) == ("shop", "shop", NOW + 60)
    assert bench.accepts(old) and bench.accepts(new) and await bench.accepts_session(session)
    old_session, new_session = [await bench.sessions.open(secret, "::1", {}) for secret in (old, new)]
    bench.clock.time = NOW + 60
    assert (bench.accepts(old), bench.accepts(new)) == (False, True)
    assert [await bench.accepts_session(token) for token in (session, old_session, new_session)] == [False, False, True]


async def test_two_secrets_of_a_key_are_valid_at_most_and_without_an_overlap_one() -> None:
    bench = KeyBench(make_key("root", "admin"))
    _, first = await bench.access.add(make_key("shop"))
    _, second = await bench.access.rotate("shop", 1000)
    _, third = await bench.access.rotate("shop", 1000)
    assert [bench.accepts(secret) for secret in (first, second, third)] == [False, True, True]
    _, last = await bench.access.rotate("shop", 0)
    assert [bench.accepts(secret) for secret in (second, third, last)] == [False, False, True]
    await bench.access.revoke("shop")
    assert not bench.accepts(last)


async def test_only_a_stored_key_is_rotated_and_only_for_a_while() -> None:
    bench = KeyBench(make_key("root", "admin"))
    await bench.access.add(make_key("shop"))
    with pytest.raises(Refused, match="configuration file"):
        await bench.access.rotate("root", 0)
    with pytest.raises(NotFound):
        await bench.access.rotate("nobody", 0)
    for overlap_s in (-1, 1e9, float("nan")):
        with pytest.raises(Invalid, match="stay valid"):
            await bench.access.rotate("shop", overlap_s)


async def test_of_two_keys_of_a_name_the_one_of_the_file_counts_and_the_other_can_be_removed() -> None:
    before = KeyBench()
    await before.access.add(make_key("root", "admin"))
    _, stored = await before.access.add(make_key("shop", "admin"))
    of_the_file = replace(make_key("shop"), hash=hash_key("of the file"))
    after = KeyBench(of_the_file)
    after.access = Authenticator(before.store, after.clock, configured=[of_the_file])
    await after.access.load()
    assert after.accepts("of the file") and not after.accepts(stored)
    names = {key.name: key.hash for key in after.access.keys()}  # noqa: SIM118 - not those of a mapping
    assert names.keys() == {"shop", "root"} and names["shop"] == of_the_file.hash
    assert after.access.find_shadowed("shop") is not None and after.access.find_shadowed("root") is None
    await after.access.revoke("shop", keep_last=True)
    assert after.access.find_shadowed("shop") is None and after.accepts("of the file")
    with pytest.raises(Refused, match="configuration file"):
        await after.access.revoke("shop", keep_last=True)


async def test_an_expired_administrator_is_no_other_administrator() -> None:
    bench = KeyBench()
    await bench.access.add(make_key("old", "admin", expires_at=NOW + 5))
    await bench.access.add(make_key("new", "admin"))
    await bench.access.add(make_key("user"))
    bench.clock.time = NOW + 5
    with pytest.raises(Refused, match="lock everybody out"):
        await bench.access.revoke("new")


async def test_a_key_that_has_expired_does_not_make_the_server_local_when_the_last_other_one_goes() -> None:
    bench = KeyBench()
    await bench.access.add(make_key("old", "admin", expires_at=NOW + 5))
    await bench.access.add(make_key("new", "admin"))
    bench.clock.time = NOW + 5
    with pytest.raises(Refused, match="lock everybody out"):
        await bench.access.revoke("new")


@pytest.mark.parametrize("others", [(), ("user",)], ids=["last key", "last administrator"])
@pytest.mark.parametrize("tenants", [{"other"}, set[str]()], ids=["of another tenant", "none"])
async def test_a_provider_whose_groups_name_no_administrator_does_not_replace_the_last_one(
    tenants: set[str], others: tuple[str, ...]
) -> None:
    bench = KeyBench(provider_rights="digest", provider_admin_tenants=frozenset(tenants))
    for key in (make_key("boss", "admin", tenant="shop"), *map(make_key, others)):
        await bench.access.add(key)
    with pytest.raises(Refused, match="last one of an administrator of the tenant 'shop'"):
        await bench.access.revoke("boss")


@pytest.mark.parametrize("tenant", ["", "shop"])
async def test_a_provider_whose_groups_name_an_administrator_replaces_the_last_one(tenant: str) -> None:
    bench = KeyBench(provider_rights="digest", provider_admin_tenants=frozenset({tenant}))
    await bench.access.add(make_key("boss", "admin", tenant="shop"))
    await bench.access.add(make_key("user"))
    await bench.access.revoke("boss")
    assert bench.access.find_caller("boss") is None


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_user_is_the_same_however_the_header_with_the_name_is_encoded(encoding: str) -> None:
    bench = KeyBench(make_key("shop", trusted=True, divisions=frozenset({"Küche"})))

    def encode_header(text: str) -> str:
        return text.encode(encoding).decode("latin-1")  # as servers pass headers on

    names = {"x-user": "José", "x-roles": "clerk, Geschäft", "x-division": "Küche"}
    caller = bench.authenticate("shop", **{name: encode_header(text) for name, text in names.items()})
    assert (caller.user, caller.roles, caller.division) == ("José", {"clerk", "Geschäft"}, "Küche")


def test_a_key_of_some_origins_is_refused_from_any_other() -> None:
    bench = KeyBench(make_key("page", origins=frozenset({"https://shop.example"})))
    assert bench.authenticate("page", origin="https://shop.example").user == "page"
    for headers in (
        {},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://shop.example.evil"},
    ):
        with pytest.raises(Forbidden, match="only by the pages"):
            bench.authenticate("page", **headers)


async def test_a_session_is_opened_only_from_an_origin_of_the_key() -> None:
    bench = KeyBench(make_key("page", origins=frozenset({"https://shop.example"})))
    with pytest.raises(Forbidden, match="only by the pages"):
        await bench.sessions.open("page", "::1", {"origin": "https://evil.example"})
    assert await bench.sessions.open("page", "::1", {"origin": "https://shop.example"})


async def test_the_last_use_is_written_once_a_minute_at_most_and_goes_with_the_key() -> None:
    bench = KeyBench(make_key("root", "admin"))
    _, secret = await bench.access.add(make_key("shop"))
    assert await bench.access.read_uses() == {}
    for second in range(100):
        bench.clock.time = NOW + second
        bench.authenticate(secret)
        await bench.access.save_uses()
    assert (await bench.access.read_uses(), bench.store.uses) == ({"shop": NOW + USE_WRITTEN_EVERY_S}, 2)
    assert not bench.accepts("wrong")
    await bench.access.save_uses()
    assert bench.store.uses == 2
    await bench.access.revoke("shop")
    assert await bench.access.read_uses() == {}


def test_an_existing_secret_is_accepted_once_its_hash_is_configured_as_the_guide_says() -> None:
    guide = GUIDE.read_text("utf-8")
    (digest,) = {line.split('"')[1] for line in guide.splitlines() if line.startswith("hash = ")}
    assert f"printf %s 'existing-secret' | sha256sum\n{digest}  -" in guide
    bench = KeyBench(Key(name="shop-backend", hash=digest, user="shop"))
    assert bench.authenticate("existing-secret").user == "shop"
