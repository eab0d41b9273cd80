"""`toolyard keys`: create, list, rotate and revoke keys, through the server that has the store open or in the store."""

import argparse
import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from toolyard.app import SystemClock
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import (
    Commands,
    act_as_this_user,
    add_command,
    add_config_flags,
    add_server_flags,
    format_time,
    load_setup,
    parse_duration,
    parse_time,
)
from toolyard.cli.server_client import open_server_or_store
from toolyard.cli.terminal import format_table
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.core.caller import Caller
from toolyard.core.errors import NotFound, Unauthenticated
from toolyard.core.store import Key, Store
from toolyard.engine.access.authentication import KEY_CONFLICT, Authenticator
from toolyard.server.config import Config

EXAMPLES = """  toolyard keys add me --user me --role admin     after the first key, the server asks everybody for one
  toolyard keys add shop --user shop --trusted    for a backend, which names its end users with X-User
  toolyard keys add ann --user ann --role approver --tenant acme --division clothing
  toolyard keys add guest --user guest --expires 30d --tool 'stock_*' --model openai:gpt-5-mini
  toolyard keys add page --user page --origin https://shop.example
  toolyard keys list
  toolyard keys rotate shop --overlap 24h         a new secret; the old one is accepted for a day more
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
    tools: list[str] = []
    models: list[str] = []
    server_tools: str = ""
    origins: list[str] = []
    not_before: float = 0.0
    expires_at: float = 0.0
    previous_until: float = 0.0
    last_used_at: float = 0.0
    conflict: str = ""


class _KeyList(msgspec.Struct):
    keys: list[_KeyEntry]


class _CreatedKey(msgspec.Struct):
    secret: str


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "keys", run_list, COMMANDS["keys"], EXAMPLES)
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
    for flag, what in (("tool", "a tool"), ("model", "a model")):
        add.add_argument(
            f"--{flag}",
            action="append",
            default=[],
            dest=f"{flag}s",
            metavar=flag.upper(),
            help=f"{what} that requests with this key may use, by name or as a pattern; may be repeated; default: any",
        )
    add.add_argument(
        "--server-tools",
        choices=("all", "none"),
        default="",
        help="whether the server's tools run in requests of Anthropic's API that do not say so; default: only where a"
        " request brings no tools of its own",
    )
    add.add_argument(
        "--origin",
        action="append",
        default=[],
        dest="origins",
        help="the origin of a page that may use this key, such as https://shop.example; may be repeated; default: any",
    )
    add.add_argument(
        "--not-before", default="", metavar="TIME", help="when the key becomes valid: 2027-01-31, or in 2h or 3d"
    )
    add.add_argument("--expires", default="", metavar="TIME", help="when the key expires: 2027-01-31, or in 12h or 30d")
    summary = "give a key a new secret and print it"
    rotate = add_command(actions, "rotate", run_rotate, summary, EXAMPLES)
    rotate.add_argument("name", help="the key's name")
    rotate.add_argument(
        "--overlap", default="0s", metavar="TIME", help="how long the old secret is accepted as well: 30m, 24h, 7d"
    )
    list_keys = add_command(actions, "list", run_list, "list the keys, without their secrets", EXAMPLES)
    revoke = add_command(actions, "revoke", run_revoke, "revoke a key: the server no longer accepts it", EXAMPLES)
    revoke.add_argument("name", help="the key's name")
    for action in (add, list_keys, rotate, revoke):
        add_config_flags(action, "store")
        add_server_flags(action)


def run_add(options: argparse.Namespace) -> None:
    if not options.name.strip() or not options.user.strip():
        raise UsageError("a key needs a name and a user")
    _check_times(options)
    print(asyncio.run(_add_key(options)))


def run_list(options: argparse.Namespace) -> None:
    keys = asyncio.run(_list_keys(options))
    if not keys:
        print("There are no keys: everybody on this machine can use the server, and nobody else.")
        return
    titles = (
        "name",
        "user",
        "roles",
        "tenant",
        "divisions",
        "trusted",
        "state",
        "limited to",
        "expires",
        "last used",
        "created",
    )
    print(format_table(titles, map(_build_row, keys)))
    for key in keys:
        if key.conflict:
            print(f"\n{key.name}: {key.conflict}. `toolyard keys revoke` removes the one of the store.")


def run_rotate(options: argparse.Namespace) -> None:
    with hint_at_key_names():
        print(asyncio.run(_rotate_key(options)))


def run_revoke(options: argparse.Namespace) -> None:
    with hint_at_key_names():
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
        tools=frozenset(options.tools),
        models=frozenset(options.models),
        server_tools=options.server_tools,
        origins=frozenset(options.origins),
        not_before=parse_time(options.not_before),
        expires_at=parse_time(options.expires),
    )
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="create") as target:
        if isinstance(target, ServerClient):
            # Only what was given: an earlier server does not know the newer fields.
            body = {name: value for name, value in msgspec.to_builtins(key).items() if name != "hash"}
            secret = (await target.request("POST", "/keys", _CreatedKey, body)).secret
        else:
            _, secret = await (await open_access(config, target)).add(key)
    return f"{secret}\n\nThis is the key {key.name!r}. Save it now: it is not shown again.\n{_describe_use(key)}"


async def _list_keys(options: argparse.Namespace) -> list[_KeyEntry]:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="empty") as target:
        if isinstance(target, ServerClient):
            return (await target.request("GET", "/keys", _KeyList)).keys
        access = await open_access(config, target)
        entries = msgspec.convert(access.keys(), list[_KeyEntry], from_attributes=True)
        uses = await access.read_uses()
        return [
            replace(
                entry,
                last_used_at=uses.get(entry.name, 0.0),
                conflict=KEY_CONFLICT if access.find_shadowed(entry.name) else "",
            )
            for entry in entries
        ]


async def _rotate_key(options: argparse.Namespace) -> str:
    config, overlap_s = load_setup(options).config, parse_duration(options.overlap)
    async with open_server_or_store(config, options.url, options.key, if_missing="empty") as target:
        if isinstance(target, ServerClient):
            path = f"/keys/{quote(options.name, safe='')}/rotate"
            secret = (await target.request("POST", path, _CreatedKey, {"overlap_s": overlap_s})).secret
        else:
            _, secret = await (await open_access(config, target)).rotate(options.name, overlap_s)
    old = f"is accepted for {options.overlap} more" if overlap_s else "is no longer accepted"
    about = f"This is the new secret of {options.name!r}. Save it now: it is not shown again. The old one {old}."
    return f"{secret}\n\n{about}"


async def _revoke_key(options: argparse.Namespace) -> None:
    config = load_setup(options).config
    async with open_server_or_store(config, options.url, options.key, if_missing="empty") as target:
        if isinstance(target, ServerClient):
            await target.request("DELETE", f"/keys/{quote(options.name, safe='')}", dict[str, object])
        else:
            await (await open_access(config, target)).revoke(options.name)


@contextmanager
def hint_at_key_names() -> Generator[None]:
    """Add to the error about an unknown key, of the store or of a server, the command that lists the names."""
    try:
        yield
    except NotFound as error:
        # A server's answer has no other mark: the same status is for a tool that does not exist.
        if not str(error).startswith("there is no key named"):
            raise
        raise NotFound(f"{error}; `toolyard keys list` shows the names") from None


async def open_access(config: Config, store: Store) -> Authenticator:
    """Return the keys of the configuration and of a store that no server has open."""
    # No token is verified here, but the Authenticator has to know whether the server accepts tokens, or administrators
    # sign in elsewhere: it refuses to revoke the key of the last one.
    verify = _verify_no_token if config.jwt else None
    act_as_this_user()
    access = Authenticator(
        store,
        SystemClock(),
        configured=config.keys,
        verify=verify,
        provider_rights="oidc" if config.oidc else "",
        provider_admin_tenants=config.oidc.admin_tenants if config.oidc else frozenset(),
    )
    await access.load()
    return access


def _verify_no_token(token: str) -> Caller:
    raise Unauthenticated("this command takes no tokens")


def _describe_use(key: Key) -> str:
    usage = "Send it as `Authorization: Bearer KEY`; the commands take it from TOOLYARD_KEY."
    return usage if "admin" in key.roles else f"{usage}\nIt cannot manage keys: that is for a key with --role admin."


def _check_times(options: argparse.Namespace) -> None:
    """Raise UsageError for a key that would never be accepted."""
    expires_at = parse_time(options.expires)
    if expires_at and expires_at <= time.time():
        raise UsageError(f"--expires is in the past: {options.expires}")
    if expires_at and expires_at <= parse_time(options.not_before):
        raise UsageError("--expires must be after --not-before")


def _describe_state(key: _KeyEntry) -> str:
    """Return whether the key is accepted now, and until when its old secret is."""
    now = time.time()
    if key.expires_at and key.expires_at <= now:
        return "expired"
    state = f"not valid before {format_time(key.not_before)}" if key.not_before > now else "valid"
    return f"{state}; old secret until {format_time(key.previous_until)}" if key.previous_until > now else state


def _build_row(key: _KeyEntry) -> tuple[str, ...]:
    times = (
        format_time(key.expires_at, "never"),
        format_time(key.last_used_at, "never"),
        format_time(key.created_at, "in the file"),
    )
    cells = (" ".join(sorted(key.roles)), key.tenant, " ".join(sorted(key.divisions)))
    server_tools = [f"server-tools={key.server_tools}"] if key.server_tools else []
    limits = " ".join([*key.tools, *key.models, *server_tools, *key.origins]) or "-"
    trusted = "yes" if key.trusted else "-"
    return (key.name, key.user, *(cell or "-" for cell in cells), trusted, _describe_state(key), limits, *times)
