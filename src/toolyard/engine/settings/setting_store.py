"""The settings in the store: reading, changing and applying them, with the entries of the file in front of them.

Each entry is one record: its value with masked secrets, and the secrets, sealed. A change is checked against all other
settings, audited and written while no other replica changes any; then it is applied here, and the others notice the
new version of the records within two seconds.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, Invalid, NotFound, Outdated, Refused
from toolyard.core.masking import MASK, mask_addresses
from toolyard.core.ports import Clock
from toolyard.core.settings.runtime import (
    TENANTS,
    EntryId,
    RuntimeSettings,
    build_settings,
    check_entry,
    find_entry_type,
    parse_entry_id,
    replace_secrets,
)
from toolyard.core.settings.versions import MAX_VERSIONS
from toolyard.core.store import AuditedKeyValue, RecordChange
from toolyard.core.store.audit_chain import AuditAction, AuditEntry, AuditQuery, AuditRecord
from toolyard.observability.auditor import RecordAuditor

SETTINGS = "setting"
"""The kind of the records."""
MAX_ENTRIES = 1_000
MAX_ENTRY_BYTES = 50_000
VERSION_CHARS = 16
_log = logging.getLogger("toolyard.settings")


class Sealer(Protocol):
    """Encrypts secrets before they are stored."""

    def seal(self, kind: str, name: str, body: bytes) -> bytes:
        """Raise Refused if secrets cannot be stored here."""
        ...

    def unseal(self, kind: str, name: str, body: bytes) -> bytes:
        """Raise Refused if they were encrypted with another secret."""
        ...


class ConfiguredEntry(Struct, frozen=True, kw_only=True):
    """An entry of the file, of a variable or of a flag: its value with masked secrets, and where it is set."""

    value: object
    location: str


class SettingEntry(Struct, frozen=True, kw_only=True):
    """An entry as administrators see it: secrets are masked."""

    kind: str
    name: str
    value: object
    source: Literal["file", "store"]
    location: str = ""
    """Where the entry of a file is: the file and its line, a variable or a flag."""
    version: str = ""
    """The version of the store's entry, for `If-Match`; empty if the store has none."""
    conflict: str = ""
    """Says that the store has an entry of this name too, which is not used."""
    problem: str = ""
    """Why the entry cannot be used, and what to do."""
    changed_by: str = ""
    changed_at: float = 0.0


class _Secrets(Struct, frozen=True):
    """The secrets of an entry by their path, and the address that they may be sent to."""

    address: str
    values: dict[str, str]


class _SettingRecord(Struct, frozen=True, kw_only=True):
    value: object
    sealed: bytes = b""
    by: str = ""
    at: float = 0.0


class _LoadedEntry(Struct, frozen=True, kw_only=True):
    record: _SettingRecord
    version: str
    value: object = None
    """The value with its secrets; None if it cannot be used."""
    address: str = ""
    """The address that its secrets may be sent to."""
    problem: str = ""


class _Change(Struct, frozen=True, kw_only=True):
    """What the audit entry of a change says."""

    before: object = None


_record_decoder = msgspec.json.Decoder(_SettingRecord)
_secrets_decoder = msgspec.json.Decoder(_Secrets)


class SettingStore:
    """The entries of the store and of the file."""

    def __init__(
        self,
        store: AuditedKeyValue,
        clock: Clock,
        sealer: Sealer,
        configured: Mapping[EntryId, ConfiguredEntry],
        *,
        find_address: Callable[[EntryId, object], str],
        check: Callable[[EntryId, RuntimeSettings, RuntimeSettings], None],
        apply: Callable[[RuntimeSettings], Awaitable[None]] | None = None,
    ) -> None:
        """`find_address` returns where the secrets of an entry are sent to; empty if to no single address.

        `check` gets a changed entry and the settings before and after, and raises Invalid or Refused if they could not
        be used. `apply` is called with the entries of the store that are in force, at the start and for each change.
        """
        self._store = store
        self._clock = clock
        self._auditor = RecordAuditor(store, clock)
        self._sealer = sealer
        self._configured = configured
        self._find_address = find_address
        self._check = check
        self._apply_to = apply
        self._lock = asyncio.Lock()
        self._loaded: dict[EntryId, _LoadedEntry] = {}

    async def load(self) -> None:
        """Read the entries of the store, and apply them."""
        async with self._lock:
            await self._read()
            await self._apply(build_settings(self._list_in_force()))

    async def read_history(self) -> Sequence[tuple[float, RuntimeSettings]]:
        """Return the settings that counted before, the oldest first, each with the time from which on it did.

        They are taken from the audit log, as far as it has the last MAX_VERSIONS changes; secrets in them are masked.
        The last ones are those that are stored now.
        """
        async with self._lock:
            await self._read()
            entries = self._list_in_force()
        history: list[tuple[float, RuntimeSettings]] = []
        for change in await self._read_changes():
            entry, before = parse_entry_id(change.target), _read_before(change)
            if entry in self._configured:
                continue
            history.insert(0, (change.at, build_settings(entries)))
            entries.pop(entry, None)
            with suppress(Invalid, NotFound):  # by rules that an earlier version had
                if before is not None:
                    check_entry(entry, before)
                    entries[entry] = before
        return [(0.0, build_settings(entries)), *history]

    async def _read_changes(self) -> Sequence[AuditEntry]:
        """Return the audit entries of the last changes, the newest first."""
        queries = [
            AuditQuery(action=action, outcome="allowed", limit=MAX_VERSIONS)
            for action in ("setting.set", "setting.delete")
        ]
        changes = [change for query in queries for change in await self._store.read_audit(query) if change.change]
        return sorted(changes, key=lambda change: -change.number)[:MAX_VERSIONS]

    def list(self) -> list[SettingEntry]:
        """Return all entries: those of the file, then those of the store that the file does not have."""
        names = [*self._configured, *(entry for entry in self._loaded if entry not in self._configured)]
        return [self._build_view(entry) for entry in names]

    def get(self, entry: EntryId) -> SettingEntry:
        """Return an entry. Raise NotFound if neither the file nor the store has it."""
        find_entry_type(entry)
        if entry not in self._configured and entry not in self._loaded:
            raise NotFound(f"there is no setting {str(entry)[:80]!r}")
        return self._build_view(entry)

    async def set(self, entry: EntryId, value: object, caller: Caller, expected: str | None = None) -> SettingEntry:
        """Store an entry in place of the one before, and apply it.

        A masked secret stays as it is. `expected` is the version that the caller has seen, empty for none: Outdated is
        raised if it is another one by now. Raises Refused for an entry of the file, and Invalid.
        """
        find_entry_type(entry)
        self._require_changeable(entry)
        async with self._lock, self._store.lock(SETTINGS, ""):
            await self._read()
            self._require_version(entry, expected)
            if entry not in self._loaded and len(self._loaded) >= MAX_ENTRIES:
                raise Refused(f"there are {MAX_ENTRIES} stored settings already: delete one first")
            value = self.restore_secrets(entry, value)
            entries = self._list_in_force()
            before, settings = build_settings(entries), build_settings({**entries, entry: value})
            _require_own_words(caller, entry, before, settings)
            self._check(entry, before, settings)
            change = self._build_change(entry, value, caller)
            await self._auditor.change_records([change])
            assert change.body is not None
            self._loaded[entry] = self._load_record(entry, change.body)
            await self._apply(settings)
        return self._build_view(entry)

    async def set_all(self, values: Mapping[EntryId, object], caller: Caller, *, dry_run: bool = False) -> None:
        """Store several entries and apply them: all of them, or none if one would be refused. `dry_run` stores none.

        Raises what `set` does, with the name of the entry.
        """
        async with self._lock, self._store.lock(SETTINGS, ""):
            await self._read()
            entries = self._list_in_force()
            before, restored = build_settings(entries), dict[EntryId, object]()
            for entry, value in values.items():
                with _naming(entry):
                    self._require_changeable(entry)
                    restored[entry] = self.restore_secrets(entry, value)
            if len(self._loaded.keys() | restored.keys()) > MAX_ENTRIES:
                raise Refused(f"there may be {MAX_ENTRIES} stored settings: delete some first")
            settings = build_settings({**entries, **restored})
            changes: list[RecordChange] = []
            for entry, value in restored.items():
                with _naming(entry):
                    self._check(entry, before, settings)
                    changes.append(self._build_change(entry, value, caller))
            if dry_run:
                return
            await self._auditor.change_records(changes)
            await self._read()
            await self._apply(settings)

    async def delete(self, entry: EntryId, caller: Caller, expected: str | None = None) -> None:
        """Delete an entry of the store, and apply that. Raise NotFound, Outdated or Refused, as `set` does."""
        find_entry_type(entry)
        if caller.tenant:
            raise Forbidden("an administrator of the server deletes settings")
        async with self._lock, self._store.lock(SETTINGS, ""):
            await self._read()
            if entry not in self._loaded:
                self._require_changeable(entry)
                raise NotFound(f"there is no stored setting {str(entry)[:80]!r}")
            self._require_version(entry, expected)
            entries = self._list_in_force()
            before = build_settings(entries)
            entries.pop(entry, None)
            settings = build_settings(entries)
            self._check(entry, before, settings)
            audit = self._build_audit("setting.delete", entry, None, caller)
            await self._auditor.change_records([RecordChange(kind=SETTINGS, name=str(entry), audit=audit)])
            del self._loaded[entry]
            await self._apply(settings)

    def restore_secrets(self, entry: EntryId, value: object) -> object:
        """Return a checked value whose masked secrets are those of the store.

        Raise Invalid if it is not valid, if there is no such secret, or if it would be sent to another address.
        """
        kept_keys: list[str] = []
        loaded = self._loaded.get(entry)
        stored_secrets = _collect_secrets(entry, loaded.value) if loaded and loaded.value is not None else {}

        def restore(path: tuple[str, ...], secret: str) -> str:
            if secret != MASK:
                return secret
            kept_keys.append(_join(path))
            return stored_secrets.get(_join(path), "")

        check_entry(entry, value)
        restored = replace_secrets(value, find_entry_type(entry), restore)
        for key in kept_keys:
            if key not in stored_secrets:
                raise _build_invalid(key, "is not stored: send its value")
            if loaded is not None and self._find_address(entry, restored) != loaded.address:
                raise _build_invalid(key, "was given for another address: send its value again")
        check_entry(entry, restored)
        return restored

    def _build_change(self, entry: EntryId, value: object, caller: Caller) -> RecordChange:
        """Return the change that stores an entry. Raise Refused if it is too large, or its secrets cannot be stored."""
        record = self._build_record(entry, value, caller)
        body = msgspec.json.encode(record)
        if len(body) > MAX_ENTRY_BYTES:
            raise Refused(f"a setting has at most {MAX_ENTRY_BYTES:,} bytes")
        audit = self._build_audit("setting.set", entry, record.value, caller)
        return RecordChange(kind=SETTINGS, name=str(entry), body=body, audit=audit)

    def _build_audit(self, action: AuditAction, entry: EntryId, after: object, caller: Caller) -> AuditRecord:
        loaded, tenant = self._loaded.get(entry), entry.name if entry.kind == TENANTS else ""
        values = {"before": loaded.record.value if loaded else None, "after": after}
        change = msgspec.json.encode(values, order="sorted").decode()
        return self._auditor.build_record(action, str(entry), tenant=tenant, by=caller, change=change)

    async def _apply(self, settings: RuntimeSettings) -> None:
        if self._apply_to is not None:
            await self._apply_to(settings)

    async def _read(self) -> None:
        records = {parse_entry_id(name): body for name, body in await self._store.list_records(SETTINGS)}
        self._loaded = {
            entry: loaded
            if (loaded := self._loaded.get(entry)) and loaded.version == _compute_version(body)
            else self._load_record(entry, body)
            for entry, body in records.items()
        }

    def _load_record(self, entry: EntryId, body: bytes) -> _LoadedEntry:
        """Return the entry of a record, with the problem of one that cannot be used."""
        version = _compute_version(body)
        try:
            record = _record_decoder.decode(body)
        except msgspec.DecodeError:
            problem = "a newer version of the server has stored it, or something else: set it again"
            return _LoadedEntry(record=_SettingRecord(value=None), version=version, problem=problem)
        try:
            secrets = _Secrets("", {})
            if record.sealed:
                secrets = _secrets_decoder.decode(self._sealer.unseal(SETTINGS, str(entry), record.sealed))
            kind = find_entry_type(entry)
            value = replace_secrets(record.value, kind, lambda path, _: secrets.values[_join(path)])
            check_entry(entry, value)
            if secrets.values and (address := self._find_address(entry, value)) != secrets.address:
                raise Refused(f"its secret was given for another address than {address or 'that of no provider'}")
        except (Refused, Invalid, NotFound, KeyError, msgspec.DecodeError) as error:
            problem = (
                f"{error}; set it again" if not isinstance(error, KeyError) else "a secret is missing: set it again"
            )
            _log.warning("the stored setting %s cannot be used: %s", entry, problem)
            return _LoadedEntry(record=record, version=version, problem=problem)
        return _LoadedEntry(record=record, version=version, value=value, address=secrets.address)

    def _build_record(self, entry: EntryId, value: object, caller: Caller) -> _SettingRecord:
        secrets = _collect_secrets(entry, value)
        sealed = b""
        if secrets:
            body = msgspec.json.encode(_Secrets(self._find_address(entry, value), secrets))
            sealed = self._sealer.seal(SETTINGS, str(entry), body)
        masked = replace_secrets(value, find_entry_type(entry), lambda path, _: MASK)
        return _SettingRecord(value=masked, sealed=sealed, by=caller.user, at=self._clock.now())

    def _list_in_force(self) -> dict[EntryId, object]:
        return {
            entry: loaded.value
            for entry, loaded in self._loaded.items()
            if loaded.value is not None and entry not in self._configured
        }

    def _require_changeable(self, entry: EntryId) -> None:
        if (configured := self._configured.get(entry)) is not None:
            raise Refused(f"{entry} is set in {configured.location}, which is used before the store: change it there")

    def _require_version(self, entry: EntryId, expected: str | None) -> None:
        loaded = self._loaded.get(entry)
        if expected is not None and expected != (loaded.version if loaded else ""):
            current = msgspec.to_builtins(self._build_view(entry)) if loaded else None
            raise Outdated(f"the setting {entry} was changed since it was read", {"current": current})

    def _build_view(self, entry: EntryId) -> SettingEntry:
        configured, loaded = self._configured.get(entry), self._loaded.get(entry)
        version = loaded.version if loaded else ""
        if configured is not None:
            conflict = (
                f"the store has {entry} too, which is not used: {configured.location} comes first" if loaded else ""
            )
            return SettingEntry(
                kind=entry.kind,
                name=mask_addresses(entry.name, every_parameter=True),
                value=configured.value,
                source="file",
                location=configured.location,
                version=version,
                conflict=conflict,
            )
        assert loaded is not None
        return SettingEntry(
            kind=entry.kind,
            name=entry.name,
            value=loaded.record.value,
            source="store",
            version=version,
            problem=loaded.problem,
            changed_by=loaded.record.by,
            changed_at=loaded.record.at,
        )


@contextmanager
def _naming(entry: EntryId) -> Generator[None]:
    """Say in errors which of several entries is wrong."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{entry}: {error}", error.details) from None
    except (Refused, NotFound) as error:
        raise type(error)(f"{entry}: {error}") from None


def _read_before(change: AuditEntry) -> object:
    return msgspec.json.decode(change.change, type=_Change).before


def _require_own_words(caller: Caller, entry: EntryId, before: RuntimeSettings, after: RuntimeSettings) -> None:
    """Raise Forbidden if an administrator of a tenant changes more than the prompts and languages of the tenant."""
    if not caller.tenant:
        return
    if entry != EntryId(TENANTS, caller.tenant):
        raise Forbidden(f"an administrator of the tenant {caller.tenant!r} changes the settings of that tenant only")
    if entry.name not in before.tenants:
        raise Forbidden("an administrator of the server adds the tenant first")
    if not after.tenants[entry.name].is_bounded_as(before.tenants[entry.name]):
        raise Forbidden("an administrator of the server sets the tools, limits and divisions of a tenant")


def _collect_secrets(entry: EntryId, value: object) -> dict[str, str]:
    secrets: dict[str, str] = {}

    def collect(path: tuple[str, ...], secret: str) -> str:
        secrets[_join(path)] = secret
        return secret

    replace_secrets(value, find_entry_type(entry), collect)
    return secrets


def _join(path: tuple[str, ...]) -> str:
    return ".".join(path)


def _compute_version(body: bytes) -> str:
    return sha256(body).hexdigest()[:VERSION_CHARS]


def _build_invalid(key: str, message: str) -> Invalid:
    return Invalid(f"{key} {message}", {"fields": [{"key": key, "message": message}]})
