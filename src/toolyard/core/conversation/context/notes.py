"""Named context for the model and for tools: notes, and the values that they were made from."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from toolyard.core.errors import Invalid

MAX_NOTES = 100
MAX_NAME_CHARS = 500
MAX_NOTE_CHARS = 100_000
MAX_CONTEXT_CHARS = 1_000_000
"""The limit for all notes of a request together."""


class Note(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named text that the model gets after the system prompt."""

    name: str
    text: str
    json: bool = False
    """Whether the text is JSON of a value that was not a string."""
    keywords: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """What the note is about, as its author described it."""


class NoteEdit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values for some fields of a note; unset ones stay as they are."""

    name: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    keywords: tuple[str, ...] | UnsetType = UNSET
    files: tuple[str, ...] | UnsetType = UNSET

    def apply_to(self, note: Note) -> Note:
        """Return the note with the new values. A new text is plain text, even if the old one was JSON."""
        new_values = {name: value for name, value in asdict(self).items() if value is not UNSET}
        return replace(note, **new_values, json=note.json and self.text is UNSET)


def edit_notes(
    notes: Mapping[str, Note], changes: Mapping[str, Note | None], edits: Mapping[str, NoteEdit]
) -> dict[str, Note]:
    """Return the notes after changes by id: a note is set, or removed by None; an edit changes one that is there.

    Raises Invalid if there are too many.
    """
    changed = {**notes, **changes}
    edited = {note_id: edit.apply_to(note) for note_id, edit in edits.items() if (note := changed.get(note_id))}
    result = {note_id: note for note_id, note in {**changed, **edited}.items() if note is not None}
    if len(notes) < len(result) > MAX_NOTES:
        raise _invalid("context", f"a conversation has at most {MAX_NOTES}; delete one first")
    return result


def to_notes(context: Mapping[str, object], prefix: str = "") -> dict[str, Note]:
    """Return a note for each field of a request's context, by id. Raises Invalid for a context that is too large."""
    if len(context) > MAX_NOTES:
        raise _invalid("context", f"has {len(context)} fields; at most {MAX_NOTES} are taken")
    notes = {f"{prefix}{name}": _build_note(name, value) for name, value in context.items()}
    size = sum(len(note.text) for note in notes.values())
    if size > MAX_CONTEXT_CHARS:
        raise _invalid("context", f"has {size:,} characters; at most {MAX_CONTEXT_CHARS:,} are taken")
    return notes


def _build_note(name: str, value: object) -> Note:
    is_text = isinstance(value, str)
    try:
        text = value if is_text else msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(f"context.{name[:80]}", f"cannot be written as JSON: {error}") from None
    if not 0 < len(name) <= MAX_NAME_CHARS or len(text) > MAX_NOTE_CHARS:
        why = f"a name has 1 to {MAX_NAME_CHARS} characters, a text at most {MAX_NOTE_CHARS}"
        raise _invalid(f"context.{name[:80]}", why)
    return Note(name=name, text=text, json=not is_text)


_NO_FIELDS: Mapping[str, object] = MappingProxyType({})


def to_fields(notes: Collection[Note]) -> Mapping[str, object]:
    """Return the values that the notes were made from, by name. Of two notes with one name the later counts."""
    if not notes:
        return _NO_FIELDS
    return MappingProxyType({note.name: msgspec.json.decode(note.text) if note.json else note.text for note in notes})


def _invalid(key: str, message: str) -> Invalid:
    return Invalid(f"{key}: {message}", {"fields": [{"key": key, "message": message}]})
