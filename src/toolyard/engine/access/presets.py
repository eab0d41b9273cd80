"""Presets: named settings for conversations, of one user or shared with everybody of a tenant.

The presets of a user are one record, and those that a tenant shares are another: a list reads two records, however many
users there are, and each bound is checked under the lock of the record that it is about.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.settings import Settings, SettingsChange
from toolyard.core.errors import Forbidden, NotFound, Refused
from toolyard.core.ports import Clock
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.model_names import PRESET_PREFIX, is_only_for_requests
from toolyard.core.settings.options import DEFAULT_OPTIONS, Options
from toolyard.core.store import AuditedKeyValue
from toolyard.core.store.audit_chain import hash_content
from toolyard.observability.auditor import Auditor

PRESETS = "preset"
"""The kind of the records."""
MAX_OWN_PRESETS = 50
MAX_SHARED_PRESETS = 100
"""Of a tenant, from all its users together."""
MAX_PRESET_BYTES = 20_000
ALL_TOOLS = "*"
"""In a list of tools: every tool that the caller may use."""


class Preset(Struct, frozen=True, kw_only=True):
    """Named settings, and the user who saved them first."""

    name: str
    user: str
    shared: bool = False
    settings: msgspec.Raw
    """A JSON object."""


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

    @property
    def tool_names(self) -> frozenset[str] | None:
        """Return the tools that a run may use; None means all that its caller may use."""
        return None if ALL_TOOLS in self.tools else frozenset(self.tools)

    def build_change(self, name: str, settings: Settings, limits: Limits) -> SettingsChange:
        """Return the change that the preset of this name makes to the settings of a run.

        The prompt of the conversation comes after that of the preset. Turns are at most those of `limits`.
        """
        return SettingsChange(
            system_prompt="\n\n".join(filter(None, (self.system_prompt, settings.system_prompt))),
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
                fields = msgspec.json.decode(preset.settings, type=PresetFields)
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

    async def save(self, caller: Caller, name: str, settings: bytes, *, shared: bool) -> Preset:
        """Store a preset in place of the one with this name. The author's own one is moved if `shared` has changed.

        Raises Forbidden for a shared preset of another user, unless the caller administers the tenant, and Refused if
        it is too large or there are too many.
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
            before = _find(others, name)
            if shared and before:
                preset = replace(preset, user=_require_editor(caller, before).user)
            existing, limit = (others, MAX_SHARED_PRESETS) if shared else (private, MAX_OWN_PRESETS)
            presets = _put(existing, preset, limit)
            async with self._auditor.record(
                "preset.save", _build_target(preset), by=caller, content_hash=hash_content(preset.settings)
            ):
                await self._write(shared_record if shared else own_record, presets)
                if shared:
                    await self._drop(own_record, private, name)
                elif before and before.user == caller.user:
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
        await self._store.set_record(PRESETS, record, msgspec.json.encode(presets))

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
