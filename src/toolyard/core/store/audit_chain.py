"""The audit log: who changed, decided, shared, exported or deleted what, as a chain of hashes. Pure.

An entry holds references and hashes, never content: no text of a message, no argument, no secret. Only the entry of a
changed setting holds its values, with masked secrets. An entry is written before what it is about takes effect, so that
nothing takes effect without one. What is refused or fails after that has a second entry, which names the first one as
its `cause`.

The oldest entries may be trimmed. An entry `audit.trim` stands for them: its `count` says how many they were, its
`target` is the number of the last of them, and its `content_hash` is the hash of that one, at which the rest begins.
"""

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

AuditAction = Literal[
    "key.add",
    "key.rotate",
    "key.revoke",
    "server.add",
    "server.change",
    "server.remove",
    "server.free_names",
    "server.start",
    "server.stop",
    "server.sign_in",
    "server.sign_out",
    "pin.accept",
    "pin.reject",
    "config.load",
    "setting.set",
    "setting.delete",
    "provider.test",
    "server.test",
    "prompt.change",
    "preset.save",
    "preset.delete",
    "call.approve",
    "call.deny",
    "share.create",
    "share.revoke",
    "conversation.export",
    "conversation.delete",
    "conversation.restore",
    "message.delete",
    "original.read",
    "session.end",
    "sign_in.refuse",
    "audit.trim",
]
AuditOutcome = Literal["allowed", "refused", "failed"]
"""`allowed`: it was about to take effect. `refused`: it had no effect. `failed`: it may have had some effect."""
MAX_REFERENCE_CHARS = 200
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Actor(Struct, frozen=True, kw_only=True):
    """Who acts, and with what: the name of the key (never the key itself), and the address of the client."""

    user: str = ""
    tenant: str = ""
    key: str = ""
    """The name of an API key, also of the one that opened a session, else `session` or `token`.

    It is empty for the server itself and for a server without keys.
    """
    address: str = ""
    correlation_id: str = ""


class AuditRecord(Struct, frozen=True, kw_only=True):
    """What an entry says, before it has a place in the chain."""

    at: float
    action: AuditAction
    target: str = ""
    """A reference: the name of a key, the id of a server, a conversation and a call."""
    tenant: str = ""
    """The tenant that it concerns, whose administrators may read the entry; empty for the whole server."""
    actor: str = ""
    """The user who acted."""
    actor_tenant: str = ""
    key: str = ""
    address: str = ""
    content_hash: str = ""
    """The SHA-256 of the new content, without its secrets; empty if there is none."""
    outcome: AuditOutcome = "allowed"
    cause: int = 0
    """The number of the entry whose outcome this one tells; 0 if it tells its own."""
    count: int = 1
    """How often it happened, for entries that stand for several attempts."""
    correlation_id: str = ""
    change: str = ""
    """A setting's values before and after, as JSON with masked secrets. `content_hash` is the hash of this text."""


class AuditEntry(AuditRecord, frozen=True, kw_only=True):
    """A record in the chain of its store. The hash covers all other fields, and so every entry before it."""

    number: int
    """1, 2, 3 and so on, without a gap."""
    previous: str = ""
    """The hash of the entry before; empty for the first one."""
    hash: str = ""


class AuditQuery(Struct, frozen=True, kw_only=True):
    """A page of entries. An empty field selects all."""

    tenant: str | None = None
    """None selects the entries of all tenants, and those of the server."""
    actor: str = ""
    action: str = ""
    outcome: str = ""
    since: float = 0.0
    cursor: int = 0
    """The number of the last entry of the page before."""
    oldest_first: bool = False
    limit: int = 100

    def selects(self, entry: AuditEntry) -> bool:
        if self.cursor and not (entry.number > self.cursor if self.oldest_first else entry.number < self.cursor):
            return False
        if self.tenant is not None and entry.tenant != self.tenant:
            return False
        pairs = ((self.actor, entry.actor), (self.action, entry.action), (self.outcome, entry.outcome))
        return entry.at >= self.since and all(selected in ("", value) for selected, value in pairs)


def seal_record(record: AuditRecord, last: AuditEntry | None) -> AuditEntry:
    """Return the entry of a record that comes after the last entry of a store."""
    number, previous = (last.number + 1, last.hash) if last else (1, "")
    entry = AuditEntry(**asdict(record), number=number, previous=previous)
    return replace(entry, hash=hash_entry(entry))


def seal_trim(record: AuditRecord, last: AuditEntry, last_removed: AuditEntry, count: int) -> AuditEntry:
    """Return the entry after `last` that stands for `count` removed entries, the oldest up to `last_removed`."""
    trim = replace(record, target=str(last_removed.number), content_hash=last_removed.hash, count=count)
    return seal_record(trim, last)


def hash_entry(entry: AuditEntry) -> str:
    """Return the SHA-256 of an entry's canonical JSON: all fields but `hash` and `change`, sorted, without spaces.

    The hash of `change` is the entry's `content_hash`, so that versions without that field verify the chain, too.
    """
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__ if name not in ("hash", "change")}
    return hash_content(fields)


def hash_content(content: object) -> str:
    """Return the SHA-256 of the content's JSON, sorted by name."""
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _holds_change(entry: AuditEntry) -> bool:
    """Return whether the values of a changed setting are those that the entry was written with."""
    has_values = entry.change or (entry.action in ("setting.set", "setting.delete") and entry.content_hash)
    return not has_values or hash_content(entry.change) == entry.content_hash


class ChainCheck:
    """Checks a whole chain that is read in pieces, oldest entry first."""

    def __init__(self) -> None:
        self.last: AuditEntry | None = None
        self.count = 0
        self._gaps: dict[tuple[str, str], str] = {}
        """What is missing, by the number and the hash of the last missing entry, until an `audit.trim` accounts for it.

        A log that is trimmed while it is read has such a gap behind the entries that were read before.
        """

    def add(self, entries: Iterable[AuditEntry]) -> str:
        """Check the next entries. Return in words the first place at which the chain is broken; empty if it holds."""
        for entry in entries:
            expected = self.last.number + 1 if self.last else 1
            missing = f"entry {expected} is" if entry.number == expected + 1 else f"entries {expected} and on are"
            gap = f"{missing} missing: the next one is {entry.number}"
            if entry.number < expected:
                return gap
            if hash_entry(entry) != entry.hash or not _holds_change(entry):
                return f"entry {entry.number} was changed: its content does not match its hash"
            if entry.number > expected:
                self._gaps[str(entry.number - 1), entry.previous] = gap
            elif entry.previous != (self.last.hash if self.last else ""):
                return f"entry {entry.number} does not follow entry {expected - 1}: that one was replaced after it"
            if entry.action == "audit.trim":
                self._gaps.pop((entry.target, entry.content_hash), None)
            self.last = entry
            self.count += 1
        return ""

    def find_gap(self) -> str:
        """Return in words which entries are missing without having been trimmed, after all entries were added."""
        return next(iter(self._gaps.values()), "")


def clean_reference(text: str) -> str:
    """Return a text of somebody else as a reference: in one line, and bounded. Different long texts stay different."""
    clean = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if len(clean) <= MAX_REFERENCE_CHARS:
        return clean
    digest = sha256(clean.encode()).hexdigest()[:16]
    return f"{clean[: MAX_REFERENCE_CHARS - len(digest) - 1]}…{digest}"
