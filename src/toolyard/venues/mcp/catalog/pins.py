"""What was accepted of a server's tools, and what it lists now: the difference is quarantined. Pure.

A tool that vanishes keeps its pin: one that comes back as something else is found out. Where callers are listed tools
each on their own, what one of them gets is held to the same pins, and changes them for nobody else.
"""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.mcp_servers import ServerTool, ToolState
from toolyard.venues.mcp.catalog.definitions import PINNED_FIELDS, Json, find_defect, hash_definition

MAX_DIFF_LINES = 200
MAX_DECISIONS = 1000
"""Definitions of one tool, beside the one that all get, of which it is known what somebody said."""
MAX_PINS = 2000
"""Of one server; what is listed now, or of which somebody said anything, is kept beyond it."""
MAX_COMPARED_LINES = 1000
"""Lines of either side: to compare them takes the square of their number."""


class Pin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool of a server, as it was accepted and as it was listed last."""

    offered_as: str
    seen: Json
    accepted: Json | None = None
    rejected: Json | None = None
    present: bool = True
    said: dict[str, bool] = {}
    """Of definitions that only some callers get, by their hashes: whether somebody accepted or rejected them."""
    pushes: bool = False
    """It asks by a request of its own, which 2026-07-28 does not have: it has failed there for that reason."""

    @property
    def state(self) -> ToolState:
        if find_defect(self.seen):
            return "unusable"
        if _is_same(self.accepted, self.seen):
            return "accepted"
        if _is_same(self.rejected, self.seen):
            return "rejected"
        return "new" if self.accepted is None else "changed"

    @property
    def is_waiting(self) -> bool:
        return self.present and self.state in ("new", "changed")

    @property
    def is_offered(self) -> bool:
        return self.present and self.state == "accepted"

    @property
    def is_kept(self) -> bool:
        return self.present or self.accepted is not None or self.rejected is not None or bool(self.said)

    @property
    def server_tool(self) -> ServerTool:
        state = self.state
        why = find_defect(self.seen) if state == "unusable" else format_difference(self) if state != "accepted" else ""
        name = str(self.seen.get("name", ""))
        return ServerTool(name=name, offered_as=self.offered_as, definition=self.seen, state=state, why=why)


Pins = dict[str, Pin]


def index_by_name(listing: Sequence[Json]) -> dict[str, Json]:
    """What a server lists, by the names there; one that lists a name twice is taken at its first word."""
    found: dict[str, Json] = {}
    for definition in listing:
        if isinstance(definition, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - it is what a server sent
            found.setdefault(str(definition.get("name", "")), definition)
    return found


def update_pins(
    pins: Mapping[str, Pin] | None, listing: Sequence[Json], *, trusting: bool, assign_name: Callable[[str], str]
) -> Pins:
    """The pins after a listing. The first of a server, which has none yet, is accepted whole, though it be empty."""
    found: Pins = {}
    for remote, definition in index_by_name(listing).items():
        known = (pins or {}).get(remote) or Pin(offered_as=assign_name(remote), seen=definition)
        accept = (trusting or pins is None) and not find_defect(definition)
        accepted = definition if accept or _is_same(known.accepted, definition) else known.accepted
        found[remote] = replace(known, seen=definition, accepted=accepted, present=True)
    gone = {remote: replace(pin, present=False) for remote, pin in (pins or {}).items() if remote not in found}
    return {**found, **gone}


def build_caller_pin(pin: Pin, definition: Json, hash: str, *, trusting: bool) -> Pin:
    """A pin as it is for a caller who gets this definition of the tool."""
    said = True if trusting and not find_defect(definition) else pin.said.get(hash)
    return replace(
        pin,
        seen=definition,
        accepted=definition if said is True else pin.accepted,
        rejected=definition if said is False else pin.rejected,
        present=True,
    )


def limit_pins(pins: Pins, needed: Collection[str]) -> Pins:
    """Without the oldest beyond MOST_PINS, as far as nobody gets them now, and nobody said anything of them."""
    idle = [remote for remote, pin in pins.items() if not pin.is_kept and remote not in needed]
    gone = set(idle[: max(0, len(pins) - MAX_PINS)])
    return {remote: pin for remote, pin in pins.items() if remote not in gone}


def record_decision(pin: Pin, hashes: Sequence[str], accept: bool) -> Pin:
    """A pin once somebody has said yes or no to definitions that only some callers get. What is oldest is forgotten."""
    said = {**{hash: told for hash, told in pin.said.items() if hash not in hashes}, **dict.fromkeys(hashes, accept)}
    return replace(pin, said=dict(list(said.items())[-MAX_DECISIONS:]))


def accept_pins(pins: Mapping[str, Pin], tools: Sequence[str] = ()) -> Pins:
    """The pins once somebody has said yes: to all that waits, or to the tools that are named."""
    return {
        remote: replace(pin, accepted=pin.seen, rejected=None) if _is_selected(remote, pin, tools) else pin
        for remote, pin in pins.items()
    }


def reject_pins(pins: Mapping[str, Pin], tools: Sequence[str] = ()) -> Pins:
    """The pins once somebody has said no: to all that waits, or to the tools that are named.

    One that was accepted as it is now is no longer.
    """
    return {
        remote: replace(pin, rejected=pin.seen, accepted=None if _is_same(pin.accepted, pin.seen) else pin.accepted)
        if _is_selected(remote, pin, tools)
        else pin
        for remote, pin in pins.items()
    }


def _is_selected(remote: str, pin: Pin, tools: Sequence[str]) -> bool:
    return pin.present and remote in tools if tools else pin.is_waiting


def format_difference(pin: Pin) -> str:
    """What a person has to look at, line by line; what is not looked at is said."""
    before, after = _format_lines(pin.accepted or {}), _format_lines(pin.seen)
    lines = list(
        difflib.unified_diff(
            before[:MAX_COMPARED_LINES], after[:MAX_COMPARED_LINES], "accepted", "listed now", lineterm="", n=2
        )
    )
    more = [f"… {len(lines) - MAX_DIFF_LINES} lines more"] if len(lines) > MAX_DIFF_LINES else []
    if before[MAX_COMPARED_LINES:] != after[MAX_COMPARED_LINES:]:
        more.append(f"… and what follows line {MAX_COMPARED_LINES:,} differs too: look at the whole definition")
    return "\n".join([*lines[:MAX_DIFF_LINES], *more])


def _is_same(first: Json | None, other: Json) -> bool:
    return first is not None and hash_definition(first) == hash_definition(other)


def _format_lines(definition: Json) -> list[str]:
    shown = {key: definition[key] for key in PINNED_FIELDS if key in definition}
    encoded = msgspec.json.encode(shown, order="deterministic") if shown else b""
    return msgspec.json.format(encoded, indent=2).decode().splitlines() if shown else []
