"""`/keys`: list, create, rotate and revoke API keys. For administrators, each within their tenant."""

import re
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from litestar import delete, get, post
from litestar.params import FromPath, JSONBody
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolyard.core.caller import Caller, ServerTools
from toolyard.core.errors import Forbidden, Invalid, NotFound, Outdated
from toolyard.core.settings.runtime import EntryId
from toolyard.core.store import KEYS, Key
from toolyard.engine.access.authentication import KEY_CONFLICT, Authenticator
from toolyard.surfaces.http.authorization import require_admin
from toolyard.surfaces.http.openapi import CHANGE_ERRORS, ERRORS
from toolyard.surfaces.http.preconditions import read_expected_version
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.surface import Backend

MAX_NAME_CHARS = 128
_ORIGIN = re.compile(r"https?://[^/\s?#@]+")


class NewKey(Struct, forbid_unknown_fields=True, kw_only=True):
    """A key's name, and the caller that it authenticates."""

    name: str
    user: str
    roles: frozenset[str] = frozenset()
    tenant: str = ""
    divisions: frozenset[str] = frozenset()
    trusted: bool = False
    tools: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    server_tools: ServerTools = ""
    """Whether the server's tools run in requests of Anthropic's API that do not say so themselves.

    If empty, they do unless the request brings tools of its own.
    """
    origins: frozenset[str] = frozenset()
    not_before: float = 0.0
    expires_at: float = 0.0


class RotateBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`overlap_s` is how long the old secret is accepted beside the new one."""

    overlap_s: float = 0.0


class KeyView(Struct, kw_only=True):
    """A key without its secret, which is not stored, and without its hash."""

    name: str
    user: str
    roles: list[str]
    tenant: str
    divisions: list[str]
    trusted: bool
    tools: list[str]
    models: list[str]
    server_tools: ServerTools
    origins: list[str]
    not_before: float
    expires_at: float
    """Zero means never."""
    created_at: float
    previous_until: float
    """Until when the secret before the last rotation is accepted; zero if it is not."""
    last_used_at: float
    """Zero if the key was never used; it may be a minute late."""
    configured: bool = False
    """Whether the key is in the configuration, and so is neither rotated nor revoked here."""
    location: str = ""
    """Where the configuration sets the key, for administrators of the server; empty for others."""
    version: str = ""
    """The version of the stored key, for `If-Match`; empty for one of the configuration alone."""
    conflict: str = ""
    """Says that the store has a key of this name too, which is not accepted. `DELETE` removes it."""


class NewKeyAnswer(Struct, kw_only=True):
    key: KeyView
    secret: str
    message: str = "keep the secret now: it is not shown again"
    success: bool = True


class KeyList(Struct, kw_only=True):
    keys: list[KeyView]
    count: int
    success: bool = True


class KeyRevoked(Struct, kw_only=True):
    name: str
    message: str
    success: bool = True


@get("/keys", responses=ERRORS, tags=["keys"])
async def list_keys(request: HttpRequest) -> KeyList:
    """List the keys that this administrator manages."""
    backend, admin = request.backend, _require_key_admin(request)
    keys = sorted(_list_visible_keys(admin, backend.access), key=lambda key: key.name)
    uses = await backend.access.read_uses()
    views = [build_key_view(key, backend, admin, uses.get(key.name, 0.0)) for key in keys]
    return KeyList(keys=views, count=len(views))


@post("/keys", responses=ERRORS, audited_as="key.add", tags=["keys"])
async def add_key(request: HttpRequest, data: JSONBody[NewKey]) -> NewKeyAnswer:
    """Create a key and return its secret, once. As soon as a key exists, every request needs one.

    The first key is that of an administrator of the server.
    """
    admin = _require_key_admin(request)
    key, secret = await request.backend.access.add(parse_key(data, admin), keep_admin=True)
    return NewKeyAnswer(key=build_key_view(key, request.backend, admin), secret=secret)


@post("/keys/{name:str}/rotate", status_code=200, responses=CHANGE_ERRORS, audited_as="key.rotate", tags=["keys"])
async def rotate_key(
    request: HttpRequest, name: FromPath[str], data: JSONBody[RotateBody | None] = None
) -> NewKeyAnswer:
    """Give a key a new secret and return it, once. The old one is accepted for the time of the overlap.

    With `If-Match`, 412 if the key has another `version` by now, with the key as `details.current`.
    """
    backend, admin = request.backend, _require_key_admin(request)
    # Whoever rotates a key can use it, and so must be able to make it.
    _require_grantable(_require_visible_key(name, admin, backend.access), admin)
    with add_current(name, backend, admin):
        overlap_s, expected = data.overlap_s if data else 0.0, read_expected_version(request)
        key, secret = await backend.access.rotate(name, overlap_s, expected=expected)
    return NewKeyAnswer(key=build_key_view(key, backend, admin), secret=secret)


@delete("/keys/{name:str}", status_code=200, responses=CHANGE_ERRORS, audited_as="key.revoke", tags=["keys"])
async def revoke_key(request: HttpRequest, name: FromPath[str]) -> KeyRevoked:
    """Revoke a key. Requests with it are refused from now on. `If-Match` as for a rotation.

    If the configuration has a key of this name too, only the stored one is removed, which is not accepted.
    """
    backend, admin = request.backend, _require_key_admin(request)
    _require_visible_key(name, admin, backend.access)
    shadowed = backend.access.find_shadowed(name)
    if shadowed is not None and admin.tenant not in ("", shadowed.tenant):
        raise Forbidden(f"the stored key {name[:MAX_NAME_CHARS]!r} belongs to another tenant")
    with add_current(name, backend, admin):
        await backend.access.revoke(name, keep_last=True, expected=read_expected_version(request))
    whose = "stored key, which was not accepted," if shadowed is not None else "key"
    return KeyRevoked(name=name, message=f"the {whose} {name!r} is revoked")


ROUTES = (list_keys, add_key, rotate_key, revoke_key)


def parse_key(data: NewKey, admin: Caller) -> Key:
    """Return the key to store. Raise Invalid for bad fields, and Forbidden for what the administrator may not grant.

    An administrator of a tenant grants keys of that tenant only, and only roles that its own key has. A key that is
    limited to tools or models grants no others.
    """
    wrong = [field for field in ("name", "user") if not 0 < len(getattr(data, field).strip()) <= MAX_NAME_CHARS]
    if wrong or not data.name.isprintable() or "/" in data.name:
        message = f"a key has a name and a user of 1 to {MAX_NAME_CHARS} characters, and no / in its name"
        raise Invalid(message, {"field": wrong[0] if wrong else "name"})
    _check_limits(data)
    if admin.tenant and data.tenant not in ("", admin.tenant):
        raise Forbidden(f"an administrator of the tenant {admin.tenant!r} makes keys of that tenant only")
    key = Key(hash="", **asdict(replace(data, tenant=data.tenant or admin.tenant)))
    _require_grantable(key, admin)
    return key


def _require_grantable(key: Key, admin: Caller) -> None:
    """Raise Forbidden for a key with rights that its administrator may not give."""
    if admin.tenant and (lacking := sorted(key.roles - admin.roles)):
        raise Forbidden(f"you cannot give the role {lacking[0][:MAX_NAME_CHARS]!r}, which your own key does not have")
    if admin.tenant and key.trusted:
        raise Forbidden("a trusted key may name any role of a tool, so an administrator without a tenant makes it")
    for kind, allowed, granted in (("tools", admin.tools, key.tools), ("models", admin.models, key.models)):
        if allowed and not (granted and granted <= allowed):
            raise Forbidden(f"your own key is limited to the {kind} {', '.join(sorted(allowed))}: so must this one be")


def _check_limits(data: NewKey) -> None:
    """Raise Invalid for a key that nobody could ever use."""
    if data.expires_at and data.expires_at <= data.not_before:
        raise Invalid("the key expires before it is valid", {"field": "expires_at"})
    if min(data.not_before, data.expires_at) < 0:
        raise Invalid("times are seconds since 1970", {"field": "not_before" if data.not_before < 0 else "expires_at"})
    if wrong := [origin for origin in data.origins if not _ORIGIN.fullmatch(origin)]:
        raise Invalid(f"{wrong[0][:80]!r} is not an origin such as https://shop.example", {"field": "origins"})


@contextmanager
def add_current(name: str, backend: Backend, admin: Caller) -> Generator[None]:
    """Add the key as it is now to the error about a change that comes too late; nothing if it is gone."""
    try:
        yield
    except Outdated as error:
        key = next((key for key in _list_visible_keys(admin, backend.access) if key.name == name), None)
        current = msgspec.to_builtins(build_key_view(key, backend, admin)) if key else None
        raise Outdated(str(error), {"current": current}) from None


def build_key_view(key: Key, backend: Backend, admin: Caller, last_used_at: float = 0.0) -> KeyView:
    """Return a key with where it is set, as this administrator sees it."""
    access, name = backend.access, key.name
    is_configured, shadowed = access.is_configured(name), access.find_shadowed(name)
    is_conflict_shown = shadowed is not None and admin.tenant in ("", shadowed.tenant)
    places = {
        "last_used_at": last_used_at,
        "configured": is_configured,
        "location": backend.locations.get(EntryId(KEYS, name), "") if is_configured and not admin.tenant else "",
        "version": access.get_version(name),
        "conflict": KEY_CONFLICT if is_conflict_shown else "",
    }
    view = msgspec.convert({**asdict(key), **places}, KeyView)
    for names in (view.roles, view.divisions, view.tools, view.models, view.origins):
        names.sort()
    return view


def _require_key_admin(request: HttpRequest) -> Caller:
    return require_admin(request, "keys are for administrators")


def _require_visible_key(name: str, admin: Caller, access: Authenticator) -> Key:
    key = next((key for key in _list_visible_keys(admin, access) if key.name == name), None)
    if key is None:
        raise NotFound(f"there is no key named {name[:MAX_NAME_CHARS]!r}")
    return key


def _list_visible_keys(admin: Caller, access: Authenticator) -> list[Key]:
    keys = access.keys()
    return [key for key in keys if admin.tenant in ("", key.tenant)]
