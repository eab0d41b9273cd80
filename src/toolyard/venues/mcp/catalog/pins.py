"""Pins: the accepted definition of each tool beside the one listed now. A difference is quarantined. Pure.

A tool that vanishes keeps its pin, so that it is noticed if it comes back with another definition. Where a server lists
tools for each caller, each listing is compared with the same pins, and changes them for no other caller.
"""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolyard.core.json_types import Json
from toolyard.core.tools.mcp_servers import ServerTool, ToolState
from toolyard.venues.mcp.catalog.definitions import PINNED_FIELDS, find_defect, hash_definition

MAX_DIFF_LINES = 200
MAX_DECISIONS = 1000
"""Decisions kept for one tool on definitions that only some callers get; the oldest are dropped."""
MAX_PINS = 2000
"""Pins of one server. Tools that are listed now or were decided on are kept beyond it."""
MAX_COMPARED_LINES = 1000
"""Lines of either side of a difference: comparing takes time with the square of their number."""


class Pin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool of a server: its accepted definition, and the one that was listed last (`seen`)."""

    offered_as: str
    seen: Json
    accepted: Json | None = None
    rejected: Json | None = None
    present: bool = True
    caller_decisions: dict[str, bool] = field(default_factory=dict[str, bool], name="said")
    """Decisions on definitions that only some callers get, by hash: True if accepted, False if rejected."""
    reviewed: str = ""
    """The hash of the definition that a person has accepted; the first listing of a server is accepted by nobody."""
    pushes: bool = False
    """Whether the tool has failed in the new era (2026-07-28) because it asks by a request of its own."""

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
    def is_reviewed(self) -> bool:
        hash = hash_definition(self.seen)
        return self.reviewed == hash or self.caller_decisions.get(hash) is True

    @property
    def is_kept(self) -> bool:
        return self.present or self.accepted is not None or self.rejected is not None or bool(self.caller_decisions)

    @property
    def server_tool(self) -> ServerTool:
        state = self.state
        why = find_defect(self.seen) if state == "unusable" else format_difference(self) if state != "accepted" else ""
        name = str(self.seen.get("name", ""))
        return ServerTool(
            name=name,
            offered_as=self.offered_as,
            definition=self.seen,
            state=state,
            why=why,
            reviewed=state == "accepted" and self.is_reviewed,
            hash=hash_definition(self.seen),
        )


Pins = dict[str, Pin]


def index_by_name(listing: Sequence[Json]) -> dict[str, Json]:
    """Return the definitions of a listing by name; of a name that is listed twice, the first."""
    definitions: dict[str, Json] = {}
    for definition in listing:
        if isinstance(definition, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - a server may send anything
            definitions.setdefault(str(definition.get("name", "")), definition)
    return definitions


def update_pins(
    pins: Mapping[str, Pin] | None,
    listing: Sequence[Json],
    *,
    trusting: bool,
    assign_name: Callable[[str], str],
    accept_first: bool = True,
) -> Pins:
    """Return the pins after a listing. With `accept_first`, the first one (`pins` is None) is accepted whole."""
    listed: Pins = {}
    for remote, definition in index_by_name(listing).items():
        pin = (pins or {}).get(remote) or Pin(offered_as=assign_name(remote), seen=definition)
        accept = (trusting or (accept_first and pins is None)) and not find_defect(definition)
        # A definition that differs only in fields that are not pinned replaces the accepted one without a decision.
        accepted = definition if accept or _is_same(pin.accepted, definition) else pin.accepted
        listed[remote] = replace(pin, seen=definition, accepted=accepted, present=True)
    missing = {remote: replace(pin, present=False) for remote, pin in (pins or {}).items() if remote not in listed}
    return {**listed, **missing}


def merge_pins(listed: Mapping[str, Pin], stored: Mapping[str, Pin]) -> Pins:
    """Return the stored pins with the definitions that were listed here.

    The decisions are those that are stored. What is listed now is a fact about one session: with the listing of another
    replica, a tool could be offered whose definition here is a different one.
    """
    merged = {
        remote: replace(pin, seen=listed[remote].seen, present=listed[remote].present)
        if remote in listed
        else replace(pin, present=False)
        for remote, pin in stored.items()
    }
    return {**{remote: pin for remote, pin in listed.items() if remote not in stored}, **merged}


def build_caller_pin(pin: Pin, definition: Json, hash: str, *, trusting: bool) -> Pin:
    """Return the pin as it is for a caller who gets this definition of the tool."""
    decision = True if trusting and not find_defect(definition) else pin.caller_decisions.get(hash)
    return replace(
        pin,
        seen=definition,
        accepted=definition if decision is True else pin.accepted,
        rejected=definition if decision is False else pin.rejected,
        present=True,
    )


def limit_pins(pins: Pins, needed: Collection[str]) -> Pins:
    """Drop the oldest pins beyond MAX_PINS, of tools that are neither listed now nor decided on."""
    unused = [remote for remote, pin in pins.items() if not pin.is_kept and remote not in needed]
    dropped = set(unused[: max(0, len(pins) - MAX_PINS)])
    return {remote: pin for remote, pin in pins.items() if remote not in dropped}


def record_decision(pin: Pin, hashes: Sequence[str], accept: bool) -> Pin:
    """Return the pin with a decision on definitions that only some callers get. The oldest ones are dropped."""
    # Hashes that are decided again move to the end: the order of the dict is the age of the decisions.
    others = {hash: accepted for hash, accepted in pin.caller_decisions.items() if hash not in hashes}
    decisions = {**others, **dict.fromkeys(hashes, accept)}
    return replace(pin, caller_decisions=dict(list(decisions.items())[-MAX_DECISIONS:]))


def accept_pins(pins: Mapping[str, Pin], tools: Sequence[str] = ()) -> Pins:
    """Return the pins with the named tools accepted, or (without names) all that wait for a decision."""
    return {
        remote: replace(pin, accepted=pin.seen, rejected=None, reviewed=hash_definition(pin.seen))
        if _is_selected(remote, pin, tools)
        else pin
        for remote, pin in pins.items()
    }


def reject_pins(pins: Mapping[str, Pin], tools: Sequence[str] = ()) -> Pins:
    """Return the pins with the named tools rejected, or (without names) all that wait for a decision.

    A tool that was accepted as it is listed now is no longer accepted. An older accepted definition stays: the tool is
    offered again if the server lists that one.
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
    """Return the difference between the accepted and the listed definition, and a note on what was left out."""
    before, after = _format_lines(pin.accepted or {}), _format_lines(pin.seen)
    lines = list(
        difflib.unified_diff(
            before[:MAX_COMPARED_LINES], after[:MAX_COMPARED_LINES], "accepted", "listed now", lineterm="", n=2
        )
    )
    more = [f"… {len(lines) - MAX_DIFF_LINES} lines more"] if len(lines) > MAX_DIFF_LINES else []
    if before[MAX_COMPARED_LINES:] != after[MAX_COMPARED_LINES:]:
        more.append(f"… and the lines after line {MAX_COMPARED_LINES:,} differ too: see the whole definition")
    return "\n".join([*lines[:MAX_DIFF_LINES], *more])


def _is_same(first: Json | None, other: Json) -> bool:
    return first is not None and hash_definition(first) == hash_definition(other)


def _format_lines(definition: Json) -> list[str]:
    pinned = {key: definition[key] for key in PINNED_FIELDS if key in definition}
    encoded = msgspec.json.encode(pinned, order="deterministic") if pinned else b""
    return msgspec.json.format(encoded, indent=2).decode().splitlines() if pinned else []
