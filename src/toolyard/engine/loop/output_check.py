"""Checks the final text of a run against its output schema, and records the outcome with the turn.

The log then holds all that `plan` needs to decide whether the model is asked again: a replay validates nothing.
"""

from msgspec.structs import replace

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.conversation.run_state import MAX_OUTPUT_REPAIRS, RunState
from toolyard.core.items import Call, ModelText, Problem, SystemText
from toolyard.core.ports import Clock
from toolyard.engine.tools.registry import Registry

MAX_PROBLEM_CHARS = 2_000
"""How much of a problem is recorded and told to the model."""
REPAIR_NOTE = "{problem}. Answer once more, with nothing but JSON that fits the schema: no other text, no code block."


def check_output(event: TurnEnded, run: RunState, registry: Registry, clock: Clock) -> TurnEnded:
    """Return the end of a turn, with the problem of a final text that does not fit the run's output schema.

    If the model is to be asked again, a note about the problem is the turn's last item. A refusal, an answer that was
    cut off and a turn with calls are not checked: none of them is a final text.
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
