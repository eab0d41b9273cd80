"""`/keys`: list, create and revoke API keys. For administrators, each within their tenant."""

from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, Invalid, NotFound
from toolyard.core.store import Key
from toolyard.engine.authentication import Authenticator
from toolyard.surfaces.openapi import ERRORS
from toolyard.surfaces.request_context import HttpRequest
from toolyard.surfaces.roles import require_admin

MAX_NAME_CHARS = 128


class NewKey(Struct, forbid_unknown_fields=True, kw_only=True):
    """A key's name, and the caller that it authenticates."""

    name: str
    user: str
    roles: frozenset[str] = frozenset()
    tenant: str = ""
    divisions: frozenset[str] = frozenset()
    trusted: bool = False


class KeyView(Struct, kw_only=True):
    """A key without its secret, which is not stored, and without its hash."""

    name: str
    user: str
    roles: list[str]
    tenant: str
    divisions: list[str]
    trusted: bool
    created_at: float


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


def routes(access: Authenticator) -> list[HTTPRouteHandler]:
    @get("/keys", responses=ERRORS, tags=["keys"])
    async def list_keys(request: HttpRequest) -> KeyList:
        """List the keys that this administrator manages."""
        keys = sorted(_list_visible_keys(_require_key_admin(request), access), key=lambda key: key.name)
        return KeyList(keys=[build_key_view(key) for key in keys], count=len(keys))

    @post("/keys", responses=ERRORS, tags=["keys"])
    async def add_key(request: HttpRequest, data: JSONBody[NewKey]) -> NewKeyAnswer:
        """Create a key and return its secret, once. As soon as a key exists, every request needs one."""
        key, secret = await access.add(parse_key(data, _require_key_admin(request)))
        return NewKeyAnswer(key=build_key_view(key), secret=secret)

    @delete("/keys/{name:str}", status_code=200, responses=ERRORS, tags=["keys"])
    async def revoke_key(request: HttpRequest, name: FromPath[str]) -> KeyRevoked:
        """Revoke a key. Requests with it are refused from now on."""
        if all(key.name != name for key in _list_visible_keys(_require_key_admin(request), access)):
            raise NotFound(f"there is no key named {name[:MAX_NAME_CHARS]!r}")
        await access.revoke(name, keep_last=True)
        return KeyRevoked(name=name, message=f"the key {name!r} is revoked")

    return [list_keys, add_key, revoke_key]


def parse_key(data: NewKey, admin: Caller) -> Key:
    """Return the key to store. Raise Invalid for bad fields, and Forbidden for what the administrator may not grant.

    An administrator of a tenant grants keys of that tenant only, and only roles that its own key has.
    """
    wrong = [field for field in ("name", "user") if not 0 < len(getattr(data, field).strip()) <= MAX_NAME_CHARS]
    if wrong or not data.name.isprintable() or "/" in data.name:
        message = f"a key has a name and a user of 1 to {MAX_NAME_CHARS} characters, and no / in its name"
        raise Invalid(message, {"field": wrong[0] if wrong else "name"})
    if admin.tenant and data.tenant not in ("", admin.tenant):
        raise Forbidden(f"an administrator of the tenant {admin.tenant!r} makes keys of that tenant only")
    if admin.tenant and (lacking := sorted(data.roles - admin.roles)):
        raise Forbidden(f"you cannot give the role {lacking[0][:MAX_NAME_CHARS]!r}, which your own key does not have")
    if admin.tenant and data.trusted:
        raise Forbidden("a trusted key may name any role of a tool, so an administrator without a tenant makes it")
    return Key(
        name=data.name,
        hash="",
        user=data.user,
        roles=data.roles,
        tenant=data.tenant or admin.tenant,
        divisions=data.divisions,
        trusted=data.trusted,
    )


def build_key_view(key: Key) -> KeyView:
    return KeyView(
        name=key.name,
        user=key.user,
        roles=sorted(key.roles),
        tenant=key.tenant,
        divisions=sorted(key.divisions),
        trusted=key.trusted,
        created_at=key.created_at,
    )


def _require_key_admin(request: HttpRequest) -> Caller:
    return require_admin(request, "keys are for administrators")


def _list_visible_keys(admin: Caller, access: Authenticator) -> list[Key]:
    keys = access.keys()
    return [key for key in keys if admin.tenant in ("", key.tenant)]
