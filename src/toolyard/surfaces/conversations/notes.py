"""Convert a conversation's named texts between request bodies and notes."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct

from toolyard.core.conversation.notes import MAX_NAME_CHARS, MAX_NOTE_CHARS, Note, NoteEdit
from toolyard.surfaces.http.request_body import LenientBody

NoteName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
NoteText = Annotated[str, Meta(max_length=MAX_NOTE_CHARS)]
Related = Annotated[list[Annotated[str, Meta(max_length=500)]], Meta(max_length=100)]


class NoteBody(LenientBody, Struct, kw_only=True):
    """A named text that the model receives besides the prompt."""

    descriptive_name: NoteName
    content: NoteText
    related_keywords: Related = []
    related_files: Related = []


class NoteChange(LenientBody, Struct, kw_only=True):
    """New values for some fields of a named text; those that are left out stay unchanged."""

    descriptive_name: NoteName | None = None
    content: NoteText | None = None
    related_keywords: Related | None = None
    related_files: Related | None = None


def to_note_body(note: Note) -> NoteBody:
    return NoteBody(
        descriptive_name=note.name,
        content=note.text,
        related_keywords=list(note.keywords),
        related_files=list(note.files),
    )


def parse_note(body: NoteBody) -> Note:
    return Note(
        name=body.descriptive_name,
        text=body.content,
        keywords=tuple(body.related_keywords),
        files=tuple(body.related_files),
    )


def parse_note_edit(body: NoteChange) -> NoteEdit:
    return NoteEdit(
        name=UNSET if body.descriptive_name is None else body.descriptive_name,
        text=UNSET if body.content is None else body.content,
        keywords=UNSET if body.related_keywords is None else tuple(body.related_keywords),
        files=UNSET if body.related_files is None else tuple(body.related_files),
    )
