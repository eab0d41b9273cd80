"""`/settings`: the settings that can be changed while the server runs, for administrators of the whole server.

An entry has a kind and a name: `/settings/providers/openai`, `/settings/model_options/openai:gpt-5`, or
`/settings/general/model` for a value at the top of the file. It comes from the file, a variable or a flag, and is
read-only then, or from the store. Secrets are write-only: an answer has `***` in their place, and a request that sends
`***` leaves the secret as it is.
"""

from typing import Annotated

from litestar import Response, delete, get, put
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Struct

from toolyard.core.errors import Invalid
from toolyard.core.settings.runtime import EntryId, FixedSetting, SettingForm, list_forms
from toolyard.engine.settings.setting_store import SettingEntry, SettingStore
from toolyard.surfaces.http.authorization import require_server_admin
from toolyard.surfaces.http.openapi import CHANGE_ERRORS, ERRORS
from toolyard.surfaces.http.preconditions import build_etag, read_expected_version
from toolyard.surfaces.http.request_context import HttpRequest

SETTING_PATH = "/settings/{kind:str}/{name:path}"
PURPOSE = "settings are for administrators of the server"


class SettingBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """The whole entry: an object with the fields of its form, or a plain value for the kind `general`."""

    value: object


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
    """List all settings that can be changed while the server runs, with where each comes from."""
    require_server_admin(request, PURPOSE)
    entries = [entry for entry in get_settings(request).list() if kind in ("", entry.kind)]
    return SettingList(
        settings=entries,
        count=len(entries),
        forms=[form for form in list_forms() if kind in ("", form.kind)],
        fixed=list(request.backend.fixed_settings),
        secret=request.backend.secret_source,
    )


@get(SETTING_PATH, responses=ERRORS, tags=["settings"])
async def get_entry(request: HttpRequest, kind: FromPath[str], name: FromPath[str]) -> Response[SettingAnswer]:
    """Return an entry, with its version as `ETag`."""
    require_server_admin(request, PURPOSE)
    return build_answer(get_settings(request).get(build_entry_id(kind, name)), "Setting found")


@put(SETTING_PATH, responses=CHANGE_ERRORS, audited_as="setting.set", tags=["settings"])
async def set_entry(
    request: HttpRequest, kind: FromPath[str], name: FromPath[str], data: JSONBody[SettingBody]
) -> Response[SettingAnswer]:
    """Store an entry in place of the one before. It counts from the next run on, at every replica.

    With `If-Match`, 412 if the entry has another version by now, with the newer one as `details.current`; with
    `If-None-Match: *`, 412 if there is one. 409 for an entry of the file, 422 with each field that is wrong.
    """
    admin = require_server_admin(request, PURPOSE)
    expected = read_expected_version(request)
    entry = await get_settings(request).set(build_entry_id(kind, name), data.value, admin, expected)
    return build_answer(entry, f"{entry.kind}.{entry.name} is saved: it counts from the next run on")


@delete(SETTING_PATH, status_code=200, responses=CHANGE_ERRORS, audited_as="setting.delete", tags=["settings"])
async def delete_entry(request: HttpRequest, kind: FromPath[str], name: FromPath[str]) -> SettingDeleted:
    """Delete an entry of the store, also one that is not used because the file has it. `If-Match` as for PUT."""
    admin = require_server_admin(request, PURPOSE)
    entry = build_entry_id(kind, name)
    await get_settings(request).delete(entry, admin, read_expected_version(request))
    return SettingDeleted(message=f"{str(entry)[:80]} is deleted from the store")


ROUTES = (list_entries, get_entry, set_entry, delete_entry)


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
