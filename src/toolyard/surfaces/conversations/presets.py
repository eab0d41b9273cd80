"""`/presets`: named settings for conversations, of the caller or shared with everybody of the tenant."""

from typing import Annotated

import msgspec
from litestar import delete, get, put
from litestar.params import JSONBody, QueryParameter
from msgspec import Struct, field

from toolyard.core.caller import Caller
from toolyard.core.settings.model_names import PLAIN, PRESET_PREFIX, is_only_for_requests
from toolyard.core.settings.options import DEFAULT_OPTIONS, Options
from toolyard.engine.access.presets import ALL_TOOLS, Preset, may_edit_preset
from toolyard.surfaces.conversations.conversations import (
    Count,
    ModelName,
    Prompt,
    ToolNames,
    Turns,
    check_default_options,
    check_max_turns,
)
from toolyard.surfaces.http.authorization import PathId
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.openapi import ERRORS
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

MAX_NAME_CHARS = 80
PRESET_PATH = "/presets/{name:str}"
IsShared = Annotated[bool, QueryParameter(description="Delete a preset of the tenant instead of an own one")]


class PresetSettings(Struct, forbid_unknown_fields=True, kw_only=True):
    """The settings of a preset, as `POST /conversations` and `PUT /conversations/{id}` take them."""

    system_prompt: Prompt = ""
    model: ModelName = ""
    """Empty for the server's default."""
    max_turns: Turns | None = None
    max_tokens: Count = 0
    max_messages: Count = 0
    options: Options = DEFAULT_OPTIONS
    tools: ToolNames = field(default_factory=lambda: [ALL_TOOLS])


class NewPreset(Struct, forbid_unknown_fields=True, kw_only=True):
    settings: PresetSettings
    shared: bool = False
    """Whether everybody of the tenant may use it."""


class PresetView(Struct, kw_only=True):
    name: str
    user: str
    """Who saved it first."""
    shared: bool
    editable: bool
    """Whether the caller may change and delete it."""
    settings: PresetSettings


class PresetAnswer(Struct, kw_only=True):
    preset: PresetView
    message: str
    success: bool = True


class PresetList(Struct, kw_only=True):
    presets: list[PresetView]
    count: int
    success: bool = True


class PresetDeleted(Struct, kw_only=True):
    message: str
    success: bool = True


@get("/presets", responses=ERRORS, tags=["presets"])
async def list_presets(request: HttpRequest) -> PresetList:
    """List the caller's presets and those that the tenant shares, by name."""
    caller = get_request_context(request.scope).caller
    presets = [build_preset_view(preset, caller) for preset in await request.backend.service.presets.list(caller)]
    return PresetList(presets=presets, count=len(presets))


@put(PRESET_PATH, responses=ERRORS, tags=["presets"])
async def save_preset(request: HttpRequest, name: PathId, data: JSONBody[NewPreset]) -> PresetAnswer:
    """Save a preset. A shared one of somebody else is changed by administrators of the tenant only."""
    service = request.backend.service
    caller = get_request_context(request.scope).caller
    check_preset_name(name)
    if is_only_for_requests(data.settings.model):
        raise invalid_field("settings.model", f"must be the name of a model: without {PRESET_PREFIX} and {PLAIN}")
    check_default_options(data.settings.options)
    check_max_turns(data.settings.max_turns or 0, service.runs.limits_for(caller))
    settings = msgspec.json.encode(data.settings)
    preset = await service.presets.save(caller, name, settings, shared=data.shared)
    return PresetAnswer(preset=build_preset_view(preset, caller), message=f"the preset {name!r} is saved")


@delete(PRESET_PATH, status_code=200, responses=ERRORS, tags=["presets"])
async def delete_preset(request: HttpRequest, name: PathId, shared: IsShared = False) -> PresetDeleted:
    """Delete one of the caller's presets or, with `?shared=true`, one of the tenant.

    Conversations that used it do not change. A shared preset is deleted by its author or by an administrator of the
    tenant.
    """
    await request.backend.service.presets.delete(get_request_context(request.scope).caller, name, shared=shared)
    return PresetDeleted(message=f"the preset {name[:MAX_NAME_CHARS]!r} is deleted")


ROUTES = (list_presets, save_preset, delete_preset)


def check_preset_name(name: str) -> None:
    """Raise Invalid for a name that cannot be shown in a line or written in a path."""
    is_short = 0 < len(name) <= MAX_NAME_CHARS
    # Browsers take a segment of dots for a step in the path.
    if not is_short or name != name.strip() or not name.isprintable() or "/" in name or not name.strip("."):
        raise invalid_field("name", f"must have 1 to {MAX_NAME_CHARS} printable characters, without /")


def build_preset_view(preset: Preset, caller: Caller) -> PresetView:
    return PresetView(
        name=preset.name,
        user=preset.user,
        shared=preset.shared,
        editable=may_edit_preset(caller, preset),
        settings=msgspec.json.decode(preset.settings, type=PresetSettings),
    )
