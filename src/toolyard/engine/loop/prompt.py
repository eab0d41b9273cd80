"""Builds the request to the model from the state: history, system text, tools and tool choice. Pure."""

from toolyard.core.conversation.notes import Note
from toolyard.core.conversation.run_state import RunState
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.ports import Clock, ModelRequest, Offer
from toolyard.core.settings.options import merge_options


def build_system_text(base: str, division: str, settings: Settings, note: str = "") -> str:
    """Join the base prompt, the division's, the conversation's, its named context and a note about the tools."""
    notes = map(format_note, settings.context.values())
    return "\n\n".join(part for part in (base, division, settings.system_prompt, *notes, note) if part)


def format_note(note: Note) -> str:
    """Return a note as the model reads it: its name, what it is about, its text."""
    labelled = (("keywords", note.keywords), ("files", note.files))
    listed = "; ".join(f"{label}: {', '.join(values)}" for label, values in labelled if values)
    return f"{note.name} ({listed}): {note.text}" if listed else f"{note.name}: {note.text}"


def resolve_tool_choice(run: RunState, offer: Offer) -> str:
    """Return the tool choice of the next turn. A forced one applies to the first turn only: else no run could end.

    A client that requires a call and sent tools is handed one: `required` applies until it is.
    """
    choice = run.request.tool_choice
    if run.must_call_client and run.finish in (None, "calls"):
        return "required" if offer.tools else "auto"
    if choice in ("auto", "none") or run.tool_turns or run.finish:
        return "none" if choice == "none" else "auto"
    return choice if choice in offer.hashes or (choice == "required" and offer.tools) else "auto"


def build_request(
    state: State, run: RunState, offer: Offer, system: str, clock: Clock, memo: dict[str, object]
) -> ModelRequest:
    """Return the request of the next turn, or of the turn in flight if its owner died."""
    return ModelRequest(
        model=run.model,
        turn=state.turn.number if state.turn else state.turns + 1,
        system=system,
        history=state.history,
        offer=offer,
        tool_choice=resolve_tool_choice(run, offer),
        clock=clock,
        options=merge_options(run.request.options, run.settings.options),
        correlation_id=run.correlation_id,
        memo=memo,
        key_models=run.request.caller.models,
    )
