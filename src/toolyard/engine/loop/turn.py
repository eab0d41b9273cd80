"""One model turn: its request, its start event, its stream and its end, with the check of a final text.

Whatever the model does, the turn ends with one event.
"""

import logging
from collections.abc import Callable
from contextlib import aclosing

from msgspec.structs import replace

from toolyard.core.conversation.context.notes import Note
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed, TurnStarted
from toolyard.core.conversation.run_state import MAX_OUTPUT_REPAIRS, RunState
from toolyard.core.conversation.settings import Settings
from toolyard.core.conversation.state import State
from toolyard.core.failed_results import to_problem
from toolyard.core.items import Call, ModelText, Problem, SystemText
from toolyard.core.ports import Clock, Model, ModelRequest, Offer
from toolyard.core.settings.models.access import is_denied
from toolyard.core.settings.models.options import merge_options
from toolyard.engine.loop.deadline import is_own_cancellation
from toolyard.engine.tools.registry import Registry

MAX_CALLS = 1000
"""A turn with more calls fails as a whole. Below this, each call over `calls_per_turn` gets an error result."""
MAX_PROBLEM_CHARS = 2_000
"""How much of a problem is recorded and told to the model."""
REPAIR_NOTE = "{problem}. Answer once more, with nothing but JSON that fits the schema: no other text, no code block."
INSTRUCTIONS_HEADER = "[The user's own instructions for all their conversations]"
_END_EVENTS = (TurnEnded, TurnFailed)

_log = logging.getLogger("toolyard.turn")


def build_system_text(base: str, division: str, settings: Settings, note: str = "") -> str:
    """Join the base prompt, the division's, the conversation's, its named context and a note about the tools."""
    notes = map(format_note, settings.context.values())
    return "\n\n".join([part for part in (base, division, settings.system_prompt, *notes, note) if part])


def format_instructions(text: str) -> str:
    """Return the user's own instructions as the model reads them; empty if there are none."""
    return f"{INSTRUCTIONS_HEADER}\n{text}" if text else ""


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
    state: State,
    run: RunState,
    offer: Offer,
    system: str,
    clock: Clock,
    memo: dict[str, object],
    denied_models: frozenset[str] = frozenset(),
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
        native=run.request.native,
        instructions=format_instructions(run.request.instructions),
        correlation_id=run.correlation_id,
        memo=memo,
        key_models=run.request.caller.models,
        denied_models=denied_models,
    )


def build_turn_started(number: int, epoch: int, offer: Offer, state: State) -> TurnStarted:
    """Return the start of a turn, with only the tools that differ from those of the turn before."""
    same = offer.digest == state.offer
    return TurnStarted(
        number=number,
        epoch=epoch,
        offer=offer.digest,
        offered=len(offer.tools),
        added={} if same else {k: v for k, v in offer.hashes.items() if state.offered.get(k) != v},
        removed=() if same else tuple(name for name in state.offered if name not in offer.hashes),
        search=offer.search,
        unreviewed=offer.unreviewed,
    )


async def stream_turn(
    request: ModelRequest, models: Callable[[str], Model], tell: Callable[[ModelDelta], None]
) -> TurnEnded | TurnFailed:
    """Pass each delta to `tell` as it arrives, and return the event that ends the turn."""
    if is_denied(request.model, request.denied_models):  # since the run has started
        return TurnFailed(problem=build_model_problem(request.model, "it is not for your roles or your tenant"))
    try:
        async with aclosing(models(request.model).stream(request)) as events:
            async for event in events:
                if isinstance(event, _END_EVENTS):
                    return _check_end(event, request.model)
                tell(event)
        why = "it gave neither an end nor a failure"
    except BaseException as error:  # a model's failure ends the run, not the process
        if is_own_cancellation(error):
            raise
        log_fields = {"correlation_id": request.correlation_id}
        _log.error("model %s failed", request.model, exc_info=error, extra=log_fields)
        why = f"{type(error).__name__}: {error}"
    return TurnFailed(problem=build_model_problem(request.model, why))


def build_model_problem(model: str, why: str) -> Problem:
    return to_problem(f"the model {model} failed: {why}", "model_error")


def _check_end(event: TurnEnded | TurnFailed, model: str) -> TurnEnded | TurnFailed:
    """Return the end of a turn with counts within bounds, or a failure if the model asks for too many calls."""
    if isinstance(event, TurnFailed):
        return event
    if len(event.items) > MAX_CALLS:
        calls = sum(isinstance(item, Call) for item in event.items)
        if calls > MAX_CALLS:
            return TurnFailed(problem=build_model_problem(model, f"it asked for {calls} calls at once"))
    usage = event.usage.bound()
    return event if usage is event.usage else replace(event, usage=usage)


def check_output(event: TurnEnded, run: RunState, registry: Registry, clock: Clock) -> TurnEnded:
    """Return the end of a turn, with the problem of a final text that does not fit the run's output schema.

    The log then holds all that `plan` needs: a replay validates nothing. If the model is to be asked again, a note
    about the problem is the turn's last item. A refusal, an answer that was cut off and a turn with calls are not
    checked: none of them is a final text.
    """
    schema = run.request.options.output_schema
    if (
        schema is None
        or event.finish != "stop"
        or any(isinstance(item, Call) and not item.ran_at for item in event.items)
    ):
        return event
    text = "".join([item.text for item in event.items if isinstance(item, ModelText)])
    problem = registry.schemas.validate_output(schema, text)
    if problem is None:
        return event
    problem = Problem(error=problem.error[:MAX_PROBLEM_CHARS], error_type=problem.error_type)
    if run.rejected_outputs >= MAX_OUTPUT_REPAIRS:
        return replace(event, output_problem=problem)
    text = REPAIR_NOTE.format(problem=problem.error[0].upper() + problem.error[1:])
    note = SystemText(id=clock.new_id("item"), at=clock.now(), text=text)
    return replace(event, items=(*event.items, note), output_problem=problem)
