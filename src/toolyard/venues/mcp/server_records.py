"""The stored configurations of MCP servers: each change and its audit entry are written together, or not at all.

A configuration with secrets is encrypted as a whole, so that its secrets are sent to no other address than the one that
they were given for. One that an earlier version stored as it is stays readable, and is encrypted with its next change.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolyard.core.errors import Outdated
from toolyard.core.store import AuditedKeyValue, RecordChange
from toolyard.core.store.audit_chain import hash_content
from toolyard.core.tools.mcp_servers import ServerSpec, mask_spec
from toolyard.observability.auditor import RecordAuditor
from toolyard.venues.mcp.auth.grants import list_grants
from toolyard.venues.mcp.auth.sealed_records import SealedRecords, UndecryptableRecord
from toolyard.venues.mcp.catalog.records import PINS
from toolyard.venues.mcp.server import ServerRecord

SERVERS = "mcp.servers"
RUNS = "mcp.runs"
"""Whether servers of the configuration are to run, in a store that several replicas share."""
VERSION_CHARS = 16


class ServerRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether a server of the configuration is to run, as a person has decided since."""

    should_run: bool = field(default=True, name="wanted")
    started_at: float | None = None
    stopped_at: float | None = None


_record_decoder = msgspec.json.Decoder(ServerRecord)
_spec_decoder = msgspec.json.Decoder(ServerSpec)
_run_decoder = msgspec.json.Decoder(ServerRun)


class ServerRecords:
    def __init__(self, store: AuditedKeyValue, auditor: RecordAuditor, sealed_records: SealedRecords) -> None:
        self._store = store
        self._auditor = auditor
        self._sealed_records = sealed_records

    async def read(self) -> dict[str, ServerRecord]:
        return {id: self._decode(id, body) for id, body in await self._store.list_records(SERVERS)}

    def _decode(self, id: str, body: bytes) -> ServerRecord:
        record = _record_decoder.decode(body)
        if not record.sealed:
            return record
        try:
            spec = _spec_decoder.decode(self._sealed_records.unseal(SERVERS, id, record.sealed))
        except UndecryptableRecord as error:
            return replace(record, problem=str(error))
        return replace(record, spec=spec, sealed=b"")

    def _encode(self, id: str, record: ServerRecord) -> bytes:
        masked = mask_spec(record.spec)
        # What could not be decrypted stays as it is stored.
        if self._sealed_records.encrypts and masked != record.spec and not record.problem:
            sealed = self._sealed_records.seal(SERVERS, id, msgspec.json.encode(record.spec))
            record = replace(record, spec=masked, sealed=sealed)
        return msgspec.json.encode(replace(record, problem=""))

    def _encode_new(self, id: str, record: ServerRecord) -> bytes:
        """Return the body of a new configuration. Raise Refused if its secrets cannot be stored here."""
        if record.spec.has_secrets:
            self._sealed_records.require_secret()
        return self._encode(id, record)

    def check(self, records: Mapping[str, ServerRecord]) -> None:
        """Raise Refused if the secrets of a new configuration cannot be stored here."""
        for id, record in records.items():
            self._encode_new(id, record)

    async def read_runs(self) -> dict[str, ServerRun]:
        if not self._store.is_shared:
            return {}
        return {name: _run_decoder.decode(body) for name, body in await self._store.list_records(RUNS)}

    async def set_all(self, records: Mapping[str, ServerRecord], before: Mapping[str, ServerSpec]) -> None:
        """Store new servers, and others in place of those `before`: all of them, or none."""
        changes: list[RecordChange] = []
        for id, record in records.items():
            earlier = before.get(id)
            action, change = "server.change" if earlier else "server.add", describe_change(earlier, record.spec)
            audit = self._auditor.build_record(action, id, tenant="", change=change)
            if earlier is None:
                # A replica may have listed the tools of an earlier server of this id after it was removed.
                changes.append(RecordChange(kind=PINS, name=id))
            changes.append(RecordChange(kind=SERVERS, name=id, body=self._encode_new(id, record), audit=audit))
        await self._auditor.change_records(changes)

    async def remove(self, id: str, before: ServerSpec, *, is_used: bool = True) -> None:
        """Delete a server, and its accepted tools and grants unless a server of the configuration uses them."""
        audit = self._auditor.build_record("server.remove", id, tenant="", change=describe_change(before, None))
        related = [(PINS, id), *await list_grants(self._sealed_records, id)] if is_used else []
        changes = [RecordChange(kind=kind, name=name) for kind, name in related]
        await self._auditor.change_records([RecordChange(kind=SERVERS, name=id, audit=audit), *changes])

    async def save_run(self, id: str, record: ServerRecord, *, configured: bool) -> None:
        """Store whether a server is to run. For a server of the configuration that is known to other replicas only."""
        if not configured:
            await self._store.set_record(SERVERS, id, self._encode(id, record))
        elif self._store.is_shared:
            run = ServerRun(should_run=record.should_run, started_at=record.started_at, stopped_at=record.stopped_at)
            await self._store.set_record(RUNS, id, msgspec.json.encode(run))


def build_record(spec: ServerSpec, before: ServerRecord | None, now: float) -> ServerRecord:
    """Return the record of a server with this configuration: a new one, or in place of the one before."""
    record = before or ServerRecord(spec=spec, created_at=now)
    trusted_before = before is not None and before.spec.trust
    trusted_at = record.trusted_at if trusted_before else now
    return replace(record, spec=spec, trusted_at=trusted_at if spec.trust else 0.0, sealed=b"", problem="")


def compute_version(record: ServerRecord) -> str:
    """Return the version of a stored configuration. Whether the server is to run is no part of it."""
    return hash_content((record.spec, record.created_at))[:VERSION_CHARS]


def require_version(id: str, record: ServerRecord, expected: str | None) -> None:
    """Raise Outdated if a version is expected that the stored configuration does not have."""
    if expected is not None and expected != compute_version(record):
        raise Outdated(f"the server {id!r} was changed since it was read")


def describe_change(before: ServerSpec | None, after: ServerSpec | None) -> str:
    """Return the configurations before and after as the audit log keeps them: with masked secrets."""
    change = {"before": before and mask_spec(before), "after": after and mask_spec(after)}
    return msgspec.json.encode(change, order="sorted").decode()
