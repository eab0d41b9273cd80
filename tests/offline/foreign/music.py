"""A music player: what is played is free text, what goes on a playlist is found first."""

from typing import Annotated

from pydantic import Field

from toolyard import ToolError, tool

TRACKS = {
    "t1": {"title": "Bohemian Rhapsody", "artist": "Queen", "genre": "rock"},
    "t2": {"title": "So What", "artist": "Miles Davis", "genre": "jazz"},
    "t3": {"title": "Hotel California", "artist": "Eagles", "genre": "rock"},
    "t4": {"title": "Hello", "artist": "Adele", "genre": "pop"},
    "t5": {"title": "Someone Like You", "artist": "Adele", "genre": "pop"},
    "t6": {"title": "Clair de Lune", "artist": "Debussy", "genre": "classical"},
}
PLAYLISTS: dict[str, list[str]] = {}


def reset() -> None:
    PLAYLISTS.clear()
    PLAYLISTS.update({"Party": ["t1"], "Chill": ["t2", "t6"], "Workout": ["t1", "t3"]})


@tool(read_only=True)
def search_music(query: Annotated[str, Field(description="Song title, artist or genre")]) -> list[dict[str, str]]:
    """Search the music library for songs."""
    term = query.lower()
    return [
        {"track_id": key, **track}
        for key, track in TRACKS.items()
        if any(term in value.lower() or value.lower() in term for value in track.values())
    ]


@tool(examples=["play some Mozart", "put on my dinner playlist"])
def play(
    what: Annotated[str, Field(description="A song, an artist, a genre or the name of a playlist")],
    shuffle: Annotated[bool, Field(description="Play in random order")] = False,
) -> dict[str, object]:
    """Play music: a song, an artist, a genre or a playlist."""
    return {"playing": what, "shuffle": shuffle}


@tool
def pause() -> str:
    """Pause the music that is playing."""
    return "paused"


@tool
def next_track() -> dict[str, str]:
    """Skip to the next song."""
    return {"playing": "So What", "artist": "Miles Davis"}


@tool
def set_volume(level: Annotated[int, Field(ge=0, le=100, description="Volume in percent")]) -> dict[str, int]:
    """Set the volume of the player."""
    return {"volume": level}


@tool
def create_playlist(name: Annotated[str, Field(description="Name of the new playlist")]) -> dict[str, object]:
    """Create an empty playlist."""
    PLAYLISTS[name] = []
    return {"playlist": name, "tracks": 0}


@tool(sources={"track_id": "search_music"})
def add_to_playlist(
    track_id: str, playlist: Annotated[str, Field(description="Name of the playlist")]
) -> dict[str, object]:
    """Add a song to a playlist."""
    if track_id not in TRACKS:
        raise ToolError(f"no track {track_id!r}", "not_found")
    PLAYLISTS.setdefault(playlist, []).append(track_id)
    return {"playlist": playlist, "added": TRACKS[track_id]["title"]}


TOOLS = (search_music, play, pause, next_track, set_volume, create_playlist, add_to_playlist)
