"""`/presets`: named settings for conversations, of the caller or shared with everybody of the tenant."""

from typing import Annotated

import msgspec
from litestar import delete, get, put
from litestar.params import JSONBody, QueryParameter
from msgspec import Meta, Struct, field

from toolyard.core.caller import Caller
from toolyard.core.conversation.context.token_estimate import estimate_text_tokens
from toolyard.core.settings.models.names import PLAIN, PRESET_PREFIX, is_only_for_requests
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.engine.access.presets import (
    ALL_TOOLS,
    MAX_FILE_BYTES,
    MAX_PRESET_FILES,
    KeptFile,
    Preset,
    PresetFile,
    may_edit_preset,
)
from toolyard.surfaces.conversations.attachments import clean_name
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


class NewPresetFile(Struct, forbid_unknown_fields=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    text: Annotated[str, Meta(max_length=1_000_000)] | None = None
    """Null or left out keeps the file of this name that the preset has."""


class PresetFileView(Struct, kw_only=True):
    name: str
    bytes: int
    tokens: int
    """The estimated tokens that it takes in every turn."""


class NewPreset(Struct, forbid_unknown_fields=True, kw_only=True):
    settings: PresetSettings
    files: Annotated[list[NewPresetFile], Meta(max_length=100)] | None = None
    """Texts for the model, at most 8 with 64,000 bytes together; null or left out keeps those that it has."""
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
    files: list[PresetFileView]
    tokens: int
    """The estimated tokens of its prompt and its files, which every turn takes."""


class PresetAnswer(Struct, kw_only=True):
    preset: PresetView
    message: str
    success: bool = True


class PresetList(Struct, kw_only=True):
    presets: list[PresetView]
    count: int
    max_files: int = MAX_PRESET_FILES
    """How many files a preset may hold."""
    max_files_bytes: int = MAX_FILE_BYTES
    """The bytes that all files of a preset may have together, as the model reads them."""
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
    files = None if data.files is None else [parse_file(file, index) for index, file in enumerate(data.files)]
    preset = await service.presets.save(caller, name, settings, shared=data.shared, files=files)
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


def parse_file(file: NewPresetFile, index: int) -> PresetFile | KeptFile:
    if not (name := clean_name(file.name)):
        raise invalid_field(f"files.{index}.name", "must have a printable character")
    return KeptFile(name=name) if file.text is None else PresetFile(name=name, text=file.text)


def build_preset_view(preset: Preset, caller: Caller) -> PresetView:
    settings = msgspec.json.decode(preset.settings, type=PresetSettings)
    files = [PresetFileView(name=file.name, bytes=len(file.text.encode()), tokens=file.tokens) for file in preset.files]
    return PresetView(
        name=preset.name,
        user=preset.user,
        shared=preset.shared,
        editable=may_edit_preset(caller, preset),
        settings=settings,
        files=files,
        tokens=estimate_text_tokens(settings.system_prompt) + sum(file.tokens for file in files),
    )
