"""`/settings`: the settings that can be changed while the server runs, for administrators of the whole server.

An administrator of a tenant sees the tenant's own entry, `/settings/tenants/NAME`, and changes its words.

An entry has a kind and a name: `/settings/providers/openai`, `/settings/model_options/openai:gpt-5`, or
`/settings/general/model` for a value at the top of the file. It comes from the file, a variable or a flag, and is
read-only then, or from the store. Secrets are write-only: an answer has `***` in their place, and a request that sends
`***` leaves the secret as it is.
"""

from typing import Annotated

from litestar import Response, delete, get, post, put
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid
from toolyard.core.settings.forms import SettingForm, list_forms
from toolyard.core.settings.runtime import TENANTS, EntryId, FixedSetting
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.engine.settings.setting_store import SettingEntry, SettingStore
from toolyard.surfaces.http.authorization import require_admin, require_server_admin
from toolyard.surfaces.http.openapi import CHANGE_ERRORS, ERRORS
from toolyard.surfaces.http.preconditions import build_etag, read_expected_version
from toolyard.surfaces.http.request_context import HttpRequest
from toolyard.surfaces.operators.servers.changes import is_another_program
from toolyard.surfaces.operators.servers.servers import ServerId, check_spec, require_addable

SETTING_PATH = "/settings/{kind:str}/{name:path}"
PURPOSE = "settings are for administrators of the server"
TENANT_FIELDS = ("prompt", "language")
"""The fields that an administrator of a tenant may change."""


class SettingBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The whole entry: an object with the fields of its form, or a plain value for the kind `general`."""

    value: object


class ImportedEntry(Struct, forbid_unknown_fields=True, kw_only=True):
    kind: str
    name: str
    value: object


class ImportBody(Struct, forbid_unknown_fields=True, kw_only=True):
    settings: list[ImportedEntry] = []
    servers: dict[ServerId, ServerSpec] = {}


class SettingsImported(Struct, kw_only=True):
    count: int
    message: str
    success: bool = True


class SettingAnswer(Struct, kw_only=True):
    setting: SettingEntry
    message: str
    success: bool = True


class SettingDeleted(Struct, kw_only=True):
    message: str
    success: bool = True


class SettingList(Struct, kw_only=True):
    settings: list[SettingEntry]
    count: int
    forms: list[SettingForm]
    """What the entries of each kind may hold."""
    fixed: list[FixedSetting]
    """Settings that need a restart, as they are now."""
    secret: str
    """How stored secrets are encrypted, in words."""
    success: bool = True


@get("/settings", responses=ERRORS, tags=["settings"])
async def list_entries(
    request: HttpRequest, kind: Annotated[str, QueryParameter(max_length=80, description="Only of this kind")] = ""
) -> SettingList:
    """List all settings that can be changed while the server runs, with where each comes from.

    An administrator of a tenant gets the entry of the tenant, and the fields that they may change.
    """
    tenant = require_admin(request, PURPOSE).tenant
    entries = [entry for entry in get_settings(request).list() if kind in ("", entry.kind)]
    forms = [form for form in list_forms() if kind in ("", form.kind)]
    if tenant:
        entries = [entry for entry in entries if (entry.kind, entry.name) == (TENANTS, tenant)]
        forms = [
            replace(form, fields=[field for field in form.fields if field.name in TENANT_FIELDS])
            for form in forms
            if form.kind == TENANTS
        ]
    return SettingList(
        settings=entries,
        count=len(entries),
        forms=forms,
        fixed=[] if tenant else list(request.backend.fixed_settings),
        secret="" if tenant else request.backend.secret_source,
    )


@get(SETTING_PATH, responses=ERRORS, tags=["settings"])
async def get_entry(request: HttpRequest, kind: FromPath[str], name: FromPath[str]) -> Response[SettingAnswer]:
    """Return an entry, with its version as `ETag`."""
    entry = build_entry_id(kind, name)
    require_entry_admin(request, entry)
    return build_answer(get_settings(request).get(entry), "Setting found")


@put(SETTING_PATH, responses=CHANGE_ERRORS, audited_as="setting.set", tags=["settings"])
async def set_entry(
    request: HttpRequest, kind: FromPath[str], name: FromPath[str], data: JSONBody[SettingBody]
) -> Response[SettingAnswer]:
    """Store an entry in place of the one before. It counts from the next run on, at every replica.

    With `If-Match`, 412 if the entry has another version by now, with the newer one as `details.current`; with
    `If-None-Match: *`, 412 if there is one. 409 for an entry of the file, 422 with each field that is wrong. An
    administrator of a tenant changes the prompts and languages of the tenant's own entry.
    """
    admin = require_entry_admin(request, build_entry_id(kind, name))
    expected = read_expected_version(request)
    entry = await get_settings(request).set(build_entry_id(kind, name), data.value, admin, expected)
    return build_answer(entry, f"{entry.kind}.{entry.name} is saved: it counts from the next run on")


@post("/settings/import", status_code=200, responses=CHANGE_ERRORS, audited_as="setting.set", tags=["settings"])
async def import_entries(request: HttpRequest, data: JSONBody[ImportBody]) -> SettingsImported:
    """Store settings and MCP servers, also in place of others: all of them, or none if one is refused.

    `toolyard config import` uses it. Servers are those of `[servers.NAME]`, by their ids.
    """
    backend, admin = request.backend, require_server_admin(request, PURPOSE)
    values = {build_entry_id(entry.kind, entry.name): entry.value for entry in data.settings}
    before = {card.id: card.spec for card in backend.servers.cards()}
    for id, spec in data.servers.items():
        check_spec(spec, f"servers.{id}")
        if is_another_program(spec, before.get(id)):
            require_addable(spec, backend.add_servers())
    assert backend.import_settings is not None, "a backend that serves requests has settings"
    await backend.import_settings(values, data.servers, admin)
    count = len(values) + len(data.servers)
    return SettingsImported(count=count, message=f"{count} entries are stored: they count from the next run on")


@delete(SETTING_PATH, status_code=200, responses=CHANGE_ERRORS, audited_as="setting.delete", tags=["settings"])
async def delete_entry(request: HttpRequest, kind: FromPath[str], name: FromPath[str]) -> SettingDeleted:
    """Delete an entry of the store, also one that is not used because the file has it. `If-Match` as for PUT."""
    admin = require_server_admin(request, PURPOSE)
    entry = build_entry_id(kind, name)
    await get_settings(request).delete(entry, admin, read_expected_version(request))
    return SettingDeleted(message=f"{str(entry)[:80]} is deleted from the store")


ROUTES = (list_entries, get_entry, set_entry, import_entries, delete_entry)


def require_entry_admin(request: HttpRequest, entry: EntryId) -> Caller:
    """Return the caller if it may see an entry: all of them for the whole server, else that of its own tenant."""
    admin = require_admin(request, PURPOSE)
    return admin if admin.tenant and entry == (TENANTS, admin.tenant) else require_server_admin(request, PURPOSE)


def get_settings(request: HttpRequest) -> SettingStore:
    settings = request.backend.settings
    assert settings is not None, "a backend that serves requests has settings"
    return settings


def build_entry_id(kind: str, name: str) -> EntryId:
    """Return the entry of a path. The names of models may have slashes."""
    if not name.removeprefix("/"):
        raise Invalid("name the entry: /settings/KIND/NAME")
    return EntryId(kind, name.removeprefix("/"))


def build_answer(entry: SettingEntry, message: str) -> Response[SettingAnswer]:
    return Response(SettingAnswer(setting=entry, message=message), headers=build_etag(entry.version))
