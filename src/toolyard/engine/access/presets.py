"""Presets: named settings for conversations, of one user or shared with everybody of a tenant.

The presets of a user are one record, and those that a tenant shares are another: a list reads two records, however many
users there are, and each bound is checked under the lock of the record that it is about.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.context.token_estimate import estimate_text_tokens
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import Forbidden, NotFound, Refused
from toolyard.core.ports import Clock
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.names import PRESET_PREFIX, is_only_for_requests
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.store import AuditedKeyValue
from toolyard.core.store.audit_chain import hash_content
from toolyard.observability.auditor import Auditor

PRESETS = "preset"
"""The kind of the records."""
MAX_OWN_PRESETS = 50
MAX_SHARED_PRESETS = 100
"""Of a tenant, from all its users together."""
MAX_PRESET_BYTES = 20_000
MAX_PRESET_FILES = 8
MAX_FILE_BYTES = 64_000
"""Of all files of a preset. The log of each run that applies a preset holds them."""
MAX_RECORD_BYTES = 2_000_000
"""Of all presets of a user, or all that a tenant shares: they are read together."""
ALL_TOOLS = "*"
"""In a list of tools: every tool that the caller may use."""


class PresetFile(Struct, frozen=True, kw_only=True):
    """A file as text, which runs show the model after the prompt of their preset. It is trusted as the prompt is."""

    name: str
    text: str

    @property
    def tokens(self) -> int:
        """Return the estimated number of tokens that it takes in every turn."""
        return estimate_text_tokens(self.prompt)

    @property
    def prompt(self) -> str:
        """Return the file as the model reads it."""
        return f"The file {self.name}:\n{self.text}"


class KeptFile(Struct, frozen=True, kw_only=True):
    """A file that the preset has already and keeps as it is."""

    name: str


class Preset(Struct, frozen=True, kw_only=True):
    """Named settings, and the user who saved them first."""

    name: str
    user: str
    shared: bool = False
    settings: msgspec.Raw
    """A JSON object."""
    files: tuple[PresetFile, ...] = ()


class PresetFields(Struct, frozen=True, kw_only=True):
    """The settings of a preset, as runs apply them."""

    system_prompt: str = ""
    model: str = ""
    """Empty for the server's default."""
    max_turns: int | None = None
    max_tokens: int = 0
    max_messages: int = 0
    options: Options = DEFAULT_OPTIONS
    tools: tuple[str, ...] = (ALL_TOOLS,)
    files: tuple[PresetFile, ...] = ()

    @property
    def tool_names(self) -> frozenset[str] | None:
        """Return the tools that a run may use; None means all that its caller may use."""
        return None if ALL_TOOLS in self.tools else frozenset(self.tools)

    def build_change(self, name: str, settings: Settings, limits: Limits) -> SettingsChange:
        """Return the change that the preset of this name makes to the settings of a run.

        The prompt of the conversation comes after that of the preset and its files. Turns have the bound of `limits`.
        """
        prompts = (self.system_prompt, *(file.prompt for file in self.files), settings.system_prompt)
        return SettingsChange(
            system_prompt="\n\n".join(filter(None, prompts)),
            max_messages=self.max_messages or UNSET,
            max_tokens=self.max_tokens or UNSET,
            options=self.options,
            tools=self.tool_names,
            max_turns=min(self.max_turns, limits.turns_per_request) if self.max_turns else 0,
            default_limits=limits,
            preset=name,
        )


_decoder = msgspec.json.Decoder(tuple[Preset, ...])


class Presets:
    """Lists, saves and deletes presets, each caller's own and those of the caller's tenant."""

    def __init__(self, store: AuditedKeyValue, clock: Clock) -> None:
        self._store = store
        self._auditor = Auditor(store, clock)

    async def list(self, caller: Caller) -> Sequence[Preset]:
        """Return the caller's own presets and those that the tenant shares, by name."""
        private, shared = await self._read(_name_own(caller)), await self._read(_name_shared(caller))
        return sorted((*private, *shared), key=lambda preset: (preset.name.casefold(), preset.shared))

    async def find(self, caller: Caller, name: str) -> PresetFields:
        """Return the settings of the caller's own preset with this name, or of the tenant's. Raises NotFound."""
        for record in (_name_own(caller), _name_shared(caller)):
            if preset := _find(await self._read(record), name):
                fields = replace(msgspec.json.decode(preset.settings, type=PresetFields), files=preset.files)
                if not is_only_for_requests(fields.model):
                    return fields
        raise NotFound(f"there is no preset {name[:80]!r}")

    async def find_named(self, caller: Caller, model: str) -> PresetFields | None:
        """Return the preset that a model's name stands for; None if it is the name of a model. Raises NotFound."""
        is_preset = model.startswith(PRESET_PREFIX)
        return await self.find(caller, model.removeprefix(PRESET_PREFIX)) if is_preset else None

    async def find_model(self, caller: Caller, model: str) -> str:
        """Return the model that a name stands for: a preset's is that of the preset. Raises NotFound."""
        preset = await self.find_named(caller, model)
        return model if preset is None else preset.model

    async def save(
        self,
        caller: Caller,
        name: str,
        settings: bytes,
        *,
        shared: bool,
        files: Sequence[PresetFile | KeptFile] | None = None,
    ) -> Preset:
        """Store a preset in place of the one with this name. The author's own one is moved if `shared` has changed.

        Without `files` those that it has stay.

        Raises Forbidden for a shared preset of another user, unless the caller administers the tenant, Refused if it is
        too large or there are too many, and NotFound for a file to keep that it does not have.
        """
        if len(settings) > MAX_PRESET_BYTES:
            raise Refused(f"a preset has at most {MAX_PRESET_BYTES:,} bytes: shorten its system prompt or its list")
        preset = Preset(name=name, user=caller.user, shared=shared, settings=msgspec.Raw(settings))
        # Always in this order, so that two requests never wait for each other.
        async with (
            self._store.lock(PRESETS, own_record := _name_own(caller)),
            self._store.lock(PRESETS, shared_record := _name_shared(caller)),
        ):
            private, others = await self._read(own_record), await self._read(shared_record)
            before, own_before = _find(others, name), _find(private, name)
            if shared and before:
                preset = replace(preset, user=_require_editor(caller, before).user)
            own_shared = before if before and before.user == caller.user else None
            replaced = (before or own_before) if shared else (own_before or own_shared)
            files_before = replaced.files if replaced else ()
            preset = replace(preset, files=files_before if files is None else _merge_files(files, files_before))
            existing, limit = (others, MAX_SHARED_PRESETS) if shared else (private, MAX_OWN_PRESETS)
            presets = _put(existing, preset, limit)
            async with self._auditor.record(
                "preset.save",
                _build_target(preset),
                by=caller,
                content_hash=hash_content((preset.settings, preset.files) if preset.files else preset.settings),
            ):
                await self._write(shared_record if shared else own_record, presets)
                if shared:
                    await self._drop(own_record, private, name)
                elif own_shared:
                    await self._drop(shared_record, others, name)
        return preset

    async def delete(self, caller: Caller, name: str, *, shared: bool) -> None:
        """Delete an own preset or, if `shared`, one of the tenant. Raises NotFound, or Forbidden as `save` does."""
        record = _name_shared(caller) if shared else _name_own(caller)
        async with self._store.lock(PRESETS, record):
            presets = await self._read(record)
            preset = _find(presets, name)
            if preset is None:
                whose = "shared in your tenant" if shared else "of your own"
                raise NotFound(f"there is no preset {name[:80]!r} {whose}")
            if shared:
                _require_editor(caller, preset)
            async with self._auditor.record("preset.delete", _build_target(preset), by=caller):
                await self._drop(record, presets, name)

    async def _read(self, record: str) -> Sequence[Preset]:
        body = await self._store.read_record(PRESETS, record)
        return _decoder.decode(body) if body else ()

    async def _write(self, record: str, presets: Sequence[Preset]) -> None:
        body = msgspec.json.encode(presets)
        if len(body) > MAX_RECORD_BYTES:
            raise Refused(f"all presets together have at most {MAX_RECORD_BYTES:,} bytes: delete files of some first")
        await self._store.set_record(PRESETS, record, body)

    async def _drop(self, record: str, presets: Sequence[Preset], name: str) -> None:
        others = [preset for preset in presets if preset.name != name]
        if not others:
            await self._store.delete_record(PRESETS, record)
        elif len(others) < len(presets):
            await self._write(record, others)


def may_edit_preset(caller: Caller, preset: Preset) -> bool:
    """Return whether the caller may change a preset that it sees: its author, or an administrator of the tenant."""
    return preset.user == caller.user or "admin" in caller.roles


def _require_editor(caller: Caller, preset: Preset) -> Preset:
    if not may_edit_preset(caller, preset):
        message = f"the shared preset {preset.name!r} belongs to {preset.user!r}: save yours under another name"
        raise Forbidden(message)
    return preset


def _merge_files(files: Sequence[PresetFile | KeptFile], before: Sequence[PresetFile]) -> tuple[PresetFile, ...]:
    """Return the new files of a preset that has those of `before`. Raises NotFound, or Refused if too large."""
    merged = tuple(file if isinstance(file, PresetFile) else _find_file(before, file.name) for file in files)
    _check_files(merged)
    return merged


def _find_file(files: Sequence[PresetFile], name: str) -> PresetFile:
    for file in files:
        if file.name == name:
            return file
    raise NotFound(f"the preset has no file {name!r} to keep: send its text")


def _check_files(files: Sequence[PresetFile]) -> None:
    size = sum(len(file.prompt.encode()) for file in files)
    if len(files) > MAX_PRESET_FILES or size > MAX_FILE_BYTES:
        raise Refused(
            f"a preset has at most {MAX_PRESET_FILES} files with {MAX_FILE_BYTES:,} bytes of text together: "
            f"these are {len(files)} with {size:,}"
        )


def _build_target(preset: Preset) -> str:
    return f"{'shared' if preset.shared else preset.user}/{preset.name}"


def _find(presets: Sequence[Preset], name: str) -> Preset | None:
    return next((preset for preset in presets if preset.name == name), None)


def _put(presets: Sequence[Preset], preset: Preset, limit: int) -> Sequence[Preset]:
    others = [other for other in presets if other.name != preset.name]
    if len(others) >= limit:
        raise Refused(f"there are {limit} presets already: delete one first")
    return [*others, preset]


def _name_own(caller: Caller) -> str:
    # As JSON, in which no tenant and user can be taken for others.
    return msgspec.json.encode((caller.tenant, caller.user)).decode()


def _name_shared(caller: Caller) -> str:
    return msgspec.json.encode((caller.tenant,)).decode()
