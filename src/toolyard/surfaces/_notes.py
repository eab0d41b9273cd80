"""A conversation's named context, in and out. It does not know any route."""

from typing import Annotated

from msgspec import Meta, Struct

from toolyard.core.settings import Note


class NoteBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A named text that the model is given beside the prompt."""

    descriptive_name: Annotated[str, Meta(min_length=1, max_length=500)]
    content: Annotated[str, Meta(max_length=100_000)]


def note_body(note: Note) -> NoteBody:
    return NoteBody(descriptive_name=note.name, content=note.text)
