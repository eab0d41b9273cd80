"""`toolyard keys`: create, list and revoke keys, through the server that has the store open or in the store itself."""

import argparse
import asyncio
from datetime import datetime
from urllib.parse import quote

import msgspec

from toolyard.app import SystemClock
from toolyard.cli.common import (
    Commands,
    UsageError,
    act_as_this_user,
    add_command,
    add_config_flags,
    add_server_flags,
    load_setup,
)
from toolyard.cli.server_client import open_server_or_store
from toolyard.cli.terminal import format_table
from toolyard.client.http import ServerClient
from toolyard.core.caller import Caller
from toolyard.core.errors import Unauthenticated
from toolyard.core.store import Key, Store
from toolyard.engine.authentication import Authenticator
from toolyard.server.config import Config

EXAMPLES = """  toolyard keys add me --user me --role admin     after the first key, the server asks everybody for one
  toolyard keys add shop --user shop --trusted    for a backend, which names its end users with X-User
  toolyard keys add ann --user ann --role approver --tenant acme --division clothing
  toolyard keys list
  toolyard keys revoke shop

If no server runs, keys are written to the store. If one runs, the command sends them to it, which needs the key of an
administrator (--key or TOOLYARD_KEY) as soon as there is any key. The roles admin, operator and approver have a fixed
meaning; tools may require any other role.
"""


class _KeyEntry(msgspec.Struct, kw_only=True):
    """The properties of a key that the server shows: all but its hash."""

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
    parser = add_command(commands, "keys", run_list, "create, list and revoke keys for a server", EXAMPLES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    summary = "create a key and print its secret, which is not stored and cannot be shown again"
    add = add_command(actions, "add", run_add, summary, EXAMPLES)
    add.add_argument("name", help="a name for the key, with which it can be revoked")
    add.add_argument("--user", required=True, help="the user that requests with this key belong to")
    add.add_argument(
        "--role", action="append", default=[], dest="roles", metavar="ROLE", help="a role of the user; may be repeated"
    )
    add.add_argument("--tenant", default="", help="the tenant of the user; default: none")
    add.add_argument(
        "--division",
        action="append",
        default=[],
        dest="divisions",
        help="a division that requests with this key may belong to; may be repeated",
    )
    add.add_argument(
        "--trusted", action="store_true", help="let requests name end users with X-User, X-Roles and X-Division"
    )
    list_keys = add_command(actions, "list", run_list, "list the keys, without their secrets", EXAMPLES)
    revoke = add_command(actions, "revoke", run_revoke, "revoke a key: the server no longer accepts it", EXAMPLES)
    revoke.add_argument("name", help="the key's name")
    for action in (add, list_keys, revoke):
        add_config_flags(action, "store")
        add_server_flags(action)


def run_add(options: argparse.Namespace) -> None:
    if not options.name.strip() or not options.user.strip():
        raise UsageError("a key needs a name and a user")
    print(asyncio.run(_add_key(options)))


def run_list(options: argparse.Namespace) -> None:
    keys = asyncio.run(_list_keys(options))
    if not keys:
        print("There are no keys: everybody on this machine can use the server, and nobody else.")
        return
    print(format_table(("name", "user", "roles", "tenant", "divisions", "trusted", "created"), map(_build_row, keys)))


def run_revoke(options: argparse.Namespace) -> None:
    asyncio.run(_revoke_key(options))
    print(f"The key {options.name!r} is revoked.")


async def _add_key(options: argparse.Namespace) -> str:
    key = Key(
        name=options.name,
        hash="",
        user=options.user,
        roles=frozenset(options.roles),
        tenant=options.tenant,
        divisions=frozenset(options.divisions),
        trusted=options.trusted,
    )
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key) as target:
        if isinstance(target, ServerClient):
            body = {name: getattr(key, name) for name in ("name", "user", "roles", "tenant", "divisions", "trusted")}
            secret = (await target.request("POST", "/keys", _CreatedKey, body)).secret
        else:
            _, secret = await (await _open_access(config, target)).add(key)
    return f"{secret}\n\nThis is the key {key.name!r}. Save it now: it is not shown again.\n{_describe_use(key)}"


async def _list_keys(options: argparse.Namespace) -> list[_KeyEntry]:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key) as target:
        if isinstance(target, ServerClient):
            return (await target.request("GET", "/keys", _KeyList)).keys
        return msgspec.convert((await _open_access(config, target)).keys(), list[_KeyEntry], from_attributes=True)


async def _revoke_key(options: argparse.Namespace) -> None:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key) as target:
        if isinstance(target, ServerClient):
            await target.request("DELETE", f"/keys/{quote(options.name, safe='')}", dict[str, object])
        else:
            await (await _open_access(config, target)).revoke(options.name)


async def _open_access(config: Config, store: Store) -> Authenticator:
    # No token is verified here, but the Authenticator has to know whether the server accepts tokens: their users may be
    # administrators, and it refuses to revoke the key of the last administrator.
    verify = _verify_no_token if config.jwt else None
    act_as_this_user()
    access = Authenticator(store, SystemClock(), configured=config.keys, verify=verify)
    await access.load()
    return access


def _verify_no_token(token: str) -> Caller:
    raise Unauthenticated("this command takes no tokens")


def _describe_use(key: Key) -> str:
    usage = "Send it as `Authorization: Bearer KEY`; the commands take it from TOOLYARD_KEY."
    return usage if "admin" in key.roles else f"{usage}\nIt cannot manage keys: that is for a key with --role admin."


def _build_row(key: _KeyEntry) -> tuple[str, ...]:
    created = datetime.fromtimestamp(key.created_at).strftime("%Y-%m-%d %H:%M") if key.created_at else "in the file"
    cells = (" ".join(sorted(key.roles)), key.tenant, " ".join(sorted(key.divisions)))
    return (key.name, key.user, *(cell or "-" for cell in cells), "yes" if key.trusted else "-", created)
