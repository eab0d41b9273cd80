"""The chain of the audit log: every change of it is found, and said in words."""

import hashlib
import json

import pytest
from msgspec.structs import asdict, replace

from toolyard.core.audit import MAX_REFERENCE_CHARS, AuditEntry, AuditRecord, clean_reference, find_break, seal_record


def build_chain(length: int) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    for number in range(length):
        record = AuditRecord(at=1_763_000_000.25 + number, action="key.add", target=f"key-{number}", actor="ann")
        entries.append(seal_record(record, entries[-1] if entries else None))
    return entries


def test_a_chain_holds_in_whatever_pieces_it_is_read() -> None:
    entries = build_chain(6)
    assert find_break(entries, None) == ""
    assert find_break(entries[:2], None) == find_break(entries[2:], entries[1]) == ""


def test_anybody_can_compute_the_hash_with_a_json_library() -> None:
    entry = build_chain(2)[1]
    fields = {name: value for name, value in asdict(entry).items() if name != "hash"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == entry.hash


@pytest.mark.parametrize("field", [name for name in AuditEntry.__struct_fields__ if name != "number"])
def test_a_changed_field_is_found_in_its_entry(field: str) -> None:
    entries = build_chain(4)
    value = getattr(entries[2], field)
    entries[2] = replace(entries[2], **{field: value + 1 if isinstance(value, int | float) else f"{value}x"})
    assert find_break(entries, None).startswith("entry 3 was changed")


def test_an_entry_that_was_changed_with_its_hash_is_found_at_the_next_one() -> None:
    entries = build_chain(4)
    entries[1] = seal_record(AuditRecord(at=2.0, action="key.revoke", target="key-1"), entries[0])
    assert find_break(entries, None).startswith("entry 3 does not follow entry 2")


def test_missing_entries_are_found_at_the_beginning_and_in_the_middle() -> None:
    entries = build_chain(6)
    assert find_break(entries[1:], None) == "entry 1 is missing: the next one is 2"
    assert find_break([*entries[:2], *entries[4:]], None) == "entries 3 and on are missing: the next one is 5"
    assert "missing" in find_break([entries[0], entries[0]], None)


def test_a_reference_is_one_bounded_line_and_two_long_ones_stay_different() -> None:
    assert clean_reference("Ann Ähre/1") == "Ann Ähre/1"
    assert clean_reference("a\nb\0\ud800\u2028") == "a\\u000ab\\u0000\\ud800\\u2028"
    first, second = clean_reference("x" * 500), clean_reference("x" * 499 + "y")
    assert first != second and len(first) == len(second) == MAX_REFERENCE_CHARS
