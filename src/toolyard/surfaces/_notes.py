"""A conversation's named context, in and out. It does not know any route."""

from typing import Annotated

from msgspec import Meta

from toolyard.core.settings import Note
from toolyard.surfaces._tolerance import SeedBody

NoteName = Annotated[str, Meta(min_length=1, max_length=500)]
NoteText = Annotated[str, Meta(max_length=100_000)]
MOST_NOTES = 100


class NoteBody(SeedBody, kw_only=True):
    """A named text that the model is given beside the prompt."""

    descriptive_name: NoteName
    content: NoteText


def note_body(note: Note) -> NoteBody:
    return NoteBody(descriptive_name=note.name, content=note.text)
