"""The chain of the audit log: every change of it is found, and said in words."""

import hashlib
import json

import pytest
from msgspec.structs import asdict, replace

from support import find_break
from toolyard.core.store.audit_chain import (
    MAX_REFERENCE_CHARS,
    AuditEntry,
    AuditRecord,
    ChainCheck,
    clean_reference,
    hash_content,
    seal_record,
    seal_trim,
)


def build_chain(length: int) -> list[AuditEntry]:
    entries: list[AuditEntry] = []
    for number in range(length):
        record = AuditRecord(at=1_763_000_000.25 + number, action="key.add", target=f"key-{number}", actor="ann")
        entries.append(seal_record(record, entries[-1] if entries else None))
    return entries


def test_a_chain_holds_in_whatever_pieces_it_is_read() -> None:
    entries = build_chain(6)
    assert find_break(entries) == ""
    check = ChainCheck()
    assert check.add(entries[:2]) == check.add(entries[2:]) == check.find_gap() == ""


def test_anybody_can_compute_the_hash_with_a_json_library() -> None:
    entry = build_chain(2)[1]
    fields = {name: value for name, value in asdict(entry).items() if name not in ("hash", "change")}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == entry.hash


@pytest.mark.parametrize("change", ["", '{"before":null,"after":{"base_url":"https://other"}}'])
def test_the_values_of_a_changed_setting_cannot_be_replaced_or_removed(change: str) -> None:
    values = '{"before":null,"after":{"base_url":"https://one"}}'
    record = AuditRecord(at=1.0, action="setting.set", change=values, content_hash=hash_content(values))
    entry = seal_record(record, None)
    assert find_break([entry]) == ""
    assert find_break([replace(entry, change=change)]).startswith("entry 1 was changed")


@pytest.mark.parametrize("field", [name for name in AuditEntry.__struct_fields__ if name != "number"])
def test_a_changed_field_is_found_in_its_entry(field: str) -> None:
    entries = build_chain(4)
    value = getattr(entries[2], field)
    entries[2] = replace(entries[2], **{field: value + 1 if isinstance(value, int | float) else f"{value}x"})
    assert find_break(entries).startswith("entry 3 was changed")


def test_an_entry_that_was_changed_with_its_hash_is_found_at_the_next_one() -> None:
    entries = build_chain(4)
    entries[1] = seal_record(AuditRecord(at=2.0, action="key.revoke", target="key-1"), entries[0])
    assert find_break(entries).startswith("entry 3 does not follow entry 2")


def test_missing_entries_are_found_at_the_beginning_and_in_the_middle() -> None:
    entries = build_chain(6)
    assert find_break(entries[1:]) == "entry 1 is missing: the next one is 2"
    assert find_break([*entries[:2], *entries[4:]]) == "entries 3 and on are missing: the next one is 5"
    assert "missing" in find_break([entries[0], entries[0]])


TRIM = AuditRecord(at=2_000_000_000.0, action="audit.trim")


def trim(entries: list[AuditEntry], count: int) -> list[AuditEntry]:
    """Return what is left of a chain whose first entries are trimmed."""
    return [*entries[count:], seal_trim(TRIM, entries[-1], entries[count - 1], count)]


def test_a_trimmed_chain_holds_however_often_and_however_far() -> None:
    once = trim(build_chain(6), 2)
    assert find_break(once) == ""
    assert (once[-1].target, once[-1].count) == ("2", 2)
    assert find_break(trim(once, 3)) == find_break(trim(trim(once, 5), 1)) == find_break(trim(build_chain(1), 1)) == ""


def test_a_front_that_is_cut_off_is_found_unless_an_entry_says_so() -> None:
    entries = build_chain(6)
    remaining = trim(entries, 2)
    assert find_break(remaining[1:]) == "entries 1 and on are missing: the next one is 4"
    assert find_break(remaining[:-1]) == "entries 1 and on are missing: the next one is 3"
    other = build_chain(7)[-1]
    wrong = [
        replace(TRIM, target="2", content_hash=other.hash),
        replace(TRIM, target="3", content_hash=entries[1].hash),
        replace(TRIM, action="key.add", target="2", content_hash=entries[1].hash),
    ]
    for record in wrong:
        assert "missing" in find_break([*entries[2:], seal_record(record, entries[-1])])


def test_an_entry_about_a_trim_does_not_excuse_another_gap() -> None:
    remaining = trim(build_chain(6), 2)
    assert find_break([remaining[0], *remaining[2:]]) == "entry 4 is missing: the next one is 5"


def test_a_log_that_is_trimmed_while_it_is_read_is_not_called_broken() -> None:
    entries = build_chain(6)
    check = ChainCheck()
    assert check.add(entries[:2]) == check.add(trim(entries, 4)) == ""
    assert check.find_gap() == "" and check.count == 5


def test_a_reference_is_one_bounded_line_and_two_long_ones_stay_different() -> None:
    assert clean_reference("Ann Ähre/1") == "Ann Ähre/1"
    assert clean_reference("a\nb\0\ud800\u2028") == "a\\u000ab\\u0000\\ud800\\u2028"
    first, second = clean_reference("x" * 500), clean_reference("x" * 499 + "y")
    assert first != second and len(first) == len(second) == MAX_REFERENCE_CHARS
