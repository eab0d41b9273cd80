"""`toolyard keys`: who may come in. Through the server that has the store, if one runs; else in the store itself."""

import argparse
import asyncio
from datetime import datetime
from urllib.parse import quote

import msgspec

from toolyard.app import SystemClock
from toolyard.cli.common import Commands, UsageError, add_command, add_config_flags, add_server_flags, load_setup
from toolyard.cli.server_client import ServerClient, open_server_or_store
from toolyard.cli.terminal import format_table
from toolyard.core.caller import Caller
from toolyard.core.errors import Unauthenticated
from toolyard.core.store import Key, Store
from toolyard.engine.authentication import Authenticator
from toolyard.server.config import Config

EXAMPLES = """  toolyard keys add me --user me --role admin     the first key: now the server asks everybody for one
  toolyard keys add shop --user shop --trusted    a backend, which names its end users with X-User
  toolyard keys add ann --user ann --role approver --tenant acme --division clothing
  toolyard keys list
  toolyard keys revoke shop

Without a running server the keys are written into the store; with one, they go through it, and need the key of an
administrator (--key or TOOLYARD_KEY) as soon as there is any key. Roles with a meaning of their own: admin, operator,
approver; tools may ask for any other.
"""


class _KeyEntry(msgspec.Struct, kw_only=True):
    """What is shown of a key, as the server tells it."""

    name: str
    user: str
    roles: list[str]
    tenant: str
    divisions: list[str]
    trusted: bool
    created_at: float


class _KeyList(msgspec.Struct):
    keys: list[_KeyEntry]


class _CreatedKey(msgspec.Struct):
    secret: str


def add_to(commands: Commands) -> None:
    made = add_command(commands, "keys", run_list, "say who may use a server", EXAMPLES)
    actions = made.add_subparsers(metavar="ACTION", required=True)
    add = add_command(actions, "add", run_add, "make a key; its secret is printed once and kept nowhere", EXAMPLES)
    add.add_argument("name", help="what the key is called")
    add.add_argument("--user", required=True, help="whom it stands for")
    add.add_argument("--role", action="append", default=[], dest="roles", metavar="ROLE", help="may be repeated")
    add.add_argument("--tenant", default="", help="whose conversations it sees; default: the server's own")
    add.add_argument("--division", action="append", default=[], dest="divisions", help="may be repeated")
    add.add_argument("--trusted", action="store_true", help="it may name end users with X-User, X-Roles, X-Division")
    listed = add_command(actions, "list", run_list, "show the keys, without their secrets", EXAMPLES)
    revoke = add_command(actions, "revoke", run_revoke, "take a key back", EXAMPLES)
    revoke.add_argument("name")
    for one in (add, listed, revoke):
        add_config_flags(one, "store")
        add_server_flags(one)


def run_add(options: argparse.Namespace) -> None:
    if not options.name.strip() or not options.user.strip():
        raise UsageError("a key needs a name and a user")
    print(asyncio.run(_add_key(options)))


def run_list(options: argparse.Namespace) -> None:
    keys = asyncio.run(_list_keys(options))
    if not keys:
        print("There are no keys: a server lets in everybody on this machine, and nobody else.")
        return
    print(format_table(("name", "user", "roles", "tenant", "divisions", "trusted", "made"), map(_build_row, keys)))


def run_revoke(options: argparse.Namespace) -> None:
    asyncio.run(_revoke_key(options))
    print(f"The key {options.name!r} opens nothing any more.")


async def _add_key(options: argparse.Namespace) -> str:
    made = Key(
        name=options.name,
        hash="",
        user=options.user,
        roles=frozenset(options.roles),
        tenant=options.tenant,
        divisions=frozenset(options.divisions),
        trusted=options.trusted,
    )
    config = load_setup(options).config
    async with open_server_or_store(config.store, options.url, options.key) as place:
        if isinstance(place, ServerClient):
            body = {name: getattr(made, name) for name in ("name", "user", "roles", "tenant", "divisions", "trusted")}
            secret = (await place.request("POST", "/keys", _CreatedKey, body)).secret
        else:
            _, secret = await (await _open_access(config, place)).add(made)
    return f"{secret}\n\nThis is the key {made.name!r}. Keep it now: it is not shown again.\n{_describe_use(made)}"


async def _list_keys(options: argparse.Namespace) -> list[_KeyEntry]:
    config = load_setup(options).config
    async with open_server_or_store(config.store, options.url, options.key) as place:
        if isinstance(place, ServerClient):
            return (await place.request("GET", "/keys", _KeyList)).keys
        return msgspec.convert((await _open_access(config, place)).keys(), list[_KeyEntry], from_attributes=True)


async def _revoke_key(options: argparse.Namespace) -> None:
    config = load_setup(options).config
    async with open_server_or_store(config.store, options.url, options.key) as place:
        if isinstance(place, ServerClient):
            await place.request("DELETE", f"/keys/{quote(options.name, safe='')}", dict[str, object])
        else:
            await (await _open_access(config, place)).revoke(options.name)


async def _open_access(config: Config, store: Store) -> Authenticator:
    # No token is sent here: it only counts that the server takes tokens, which may name administrators.
    verify = _verify_no_token if config.jwt else None
    access = Authenticator(store, SystemClock(), configured=[key.key for key in config.keys], verify=verify)
    await access.load()
    return access


def _verify_no_token(token: str) -> Caller:
    raise Unauthenticated("this command takes no tokens")


def _describe_use(key: Key) -> str:
    sent = "Send it as `Authorization: Bearer KEY`; the commands take it from TOOLYARD_KEY."
    return sent if "admin" in key.roles else f"{sent}\nIt cannot manage keys: that is for a key with --role admin."


def _build_row(key: _KeyEntry) -> tuple[str, ...]:
    made = datetime.fromtimestamp(key.created_at).strftime("%Y-%m-%d %H:%M") if key.created_at else "in the file"
    words = (" ".join(sorted(key.roles)), key.tenant, " ".join(sorted(key.divisions)))
    return (key.name, key.user, *(word or "-" for word in words), "yes" if key.trusted else "-", made)
