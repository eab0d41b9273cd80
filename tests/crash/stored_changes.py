"""Compares what a store holds with its audit log: a change and its entry are there together, or neither is."""

import json
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from support import find_break
from toolyard.app import open_store
from toolyard.core.store.audit_chain import AuditEntry, AuditQuery
from toolyard.engine.settings.setting_store import SETTINGS
from toolyard.venues.mcp.server_records import SERVERS


async def check_changes(url: str) -> set[str]:
    """Fail if a setting, a server or a key is not what its last entry says. Return the ids of the servers."""
    store = await open_store(url, may_migrate=False)
    try:
        entries = await store.read_audit(AuditQuery(oldest_first=True, limit=1000))
        settings, servers = await store.list_records(SETTINGS), await store.list_records(SERVERS)
        keys = {key.name for key in await store.keys()}
    finally:
        await store.close()
    assert find_break(entries) == ""
    stored = {name: json.loads(body)["value"] for name, body in settings}
    assert stored == list_last_values(entries, "setting.")
    ids = {name for name, _ in servers}
    assert ids == list_last_values(entries, "server.").keys()
    assert keys == list_last_values(entries, "key.").keys()
    return ids


def list_last_values(entries: Sequence[AuditEntry], actions: str) -> dict[str, object]:
    """Return what these actions left, by name, without what they deleted."""
    values: dict[str, object] = {}
    for entry in entries:
        if entry.change and entry.outcome == "allowed" and entry.action.startswith(actions):
            values[entry.target] = msgspec.json.decode(entry.change, type=_Change).after
    return {target: after for target, after in values.items() if after is not None}


class _Change(Struct):
    after: object
