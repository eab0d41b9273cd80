"""Results of calls that returned no value: one structured error for each outcome."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from toolyard.core.items import Call, Outcome, Problem, Result, result_id
from toolyard.core.utf8 import replace_surrogates


def format_problem(problem: Problem) -> str:
    """Return a failure as the JSON text that the model reads."""
    fields = {"ok": False, "error": problem.error, "error_type": problem.error_type, "details": problem.details}
    return msgspec.json.encode(fields).decode()


def to_problem(error: object, error_type: object, details: Mapping[str, object] | None = None) -> Problem:
    """Return a problem made from foreign values, reduced to what can be encoded as JSON."""
    encodable: dict[str, object]
    try:
        encodable = msgspec.json.decode(msgspec.json.encode(dict(details or {}), enc_hook=str), type=dict[str, object])
    except (ValueError, TypeError, RecursionError):
        encodable = {"details": replace_surrogates(str(details))[:1000]}
    return Problem(
        error=replace_surrogates(str(error))[:4000],
        error_type=replace_surrogates(str(error_type))[:100],
        details=encodable,
    )


def build_failed_result(call: Call, outcome: Outcome, problem: Problem, at: float, duration_ms: float = 0.0) -> Result:
    return Result(
        id=result_id(call.id),
        at=at,
        call_id=call.id,
        tool=call.tool,
        outcome=outcome,
        content=format_problem(problem),
        error=problem,
        duration_ms=duration_ms,
    )


UNKNOWN_TOOL = "(unknown)"
"""The name that statistics use for all tools that did not exist when they were called."""


def is_unknown_tool(error: Problem | None, duration_ms: float | None) -> bool:
    """Return whether the called tool did not exist. A tool that reports such an error itself has a duration."""
    return error is not None and error.error_type == "unknown_tool" and not duration_ms


def build_rule_denied_result(call: Call, rule: str, at: float) -> Result:
    return build_failed_result(
        call, "denied", Problem(error=f"not allowed: {rule}", error_type="permission_denied"), at
    )


def build_user_denied_result(call: Call, reason: str, at: float) -> Result:
    error = f"the user declined: {reason}" if reason else "the user declined this call"
    return build_failed_result(call, "denied", Problem(error=error, error_type="denied_by_user"), at)


def build_expired_result(call: Call, at: float, *, awaiting_approval: bool) -> Result:
    """Return the result of a call that was not approved in time, or whose application did not answer in time."""
    if awaiting_approval:
        problem = Problem(error="nobody approved this call in time", error_type="approval_expired")
        return build_failed_result(call, "expired", problem, at)
    return build_failed_result(call, "timeout", Problem(error="no answer came in time", error_type="timeout"), at)


def build_cancelled_result(call: Call, at: float, *, may_have_run: bool) -> Result:
    error = "cancelled; it had started and may have taken effect" if may_have_run else "cancelled"
    return build_failed_result(call, "cancelled", Problem(error=error, error_type="cancelled"), at)


PROGRAM_CALLS_NOTE = "these calls of the program have run; do not make them again without need"
MAX_NAMED_CALLS = 50
MAX_NAMED_ARGUMENT_CHARS = 400
"""How much of the arguments of each of these calls is told. They may be data that the program was to keep to itself."""


def shorten_arguments(arguments: object) -> object:
    """Return the arguments of a program's call, or the beginning of their JSON if that is long."""
    text = msgspec.json.encode(arguments).decode()
    return arguments if len(text) <= MAX_NAMED_ARGUMENT_CHARS else f"{text[:MAX_NAMED_ARGUMENT_CHARS]}…"


def describe_program_calls(calls: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return the details of a failed program that tell which of its calls have run.

    Without them the model writes the whole program again, and repeats what it has done.
    """
    if not calls:
        return {}
    omitted = {"omitted": len(calls) - MAX_NAMED_CALLS} if len(calls) > MAX_NAMED_CALLS else {}
    named = [{**call, "arguments": shorten_arguments(call["arguments"])} for call in calls[:MAX_NAMED_CALLS]]
    return {"note": PROGRAM_CALLS_NOTE, "calls": named, **omitted}


def build_cancelled_program_result(
    call: Call, calls: Sequence[dict[str, object]], at: float, *, untrusted: str
) -> Result:
    """Return the result of a program that was cancelled after `calls` had run.

    `untrusted` are the sources of what the program was given: the arguments of its calls may repeat it.
    """
    problem = Problem(error="cancelled", error_type="cancelled", details=describe_program_calls(calls))
    return replace(build_failed_result(call, "cancelled", problem, at), untrusted=untrusted)


def build_given_up_program_result(
    call: Call, calls: Sequence[dict[str, object]], at: float, *, untrusted: str
) -> Result:
    """Return the result of a program that is not run again after the server has stopped, with the calls that ran."""
    error = "the server stopped while this program was running, and the program is not run again"
    problem = Problem(error=error, error_type="unknown_outcome", details=describe_program_calls(calls))
    return replace(build_failed_result(call, "unknown", problem, at), untrusted=untrusted)


def build_unanswered_result(call: Call, at: float) -> Result:
    """Return the result of a call that a client added without a result."""
    problem = Problem(error="no result was given for this call before the conversation went on", error_type="cancelled")
    return build_failed_result(call, "cancelled", problem, at)


CONTINUED = "continued"
WENT_ON = "the user went on"
"""The reason of a denial by a message that does not decide: whoever asked for the call wrote about something else."""
"""The detail of a run whose client went on with another one: its calls have the results that the client brought."""
WITHDRAWN = "withdrawn"
"""The error type of a proposal that was not decided because another message came first."""


def build_withdrawn_result(call: Call, at: float) -> Result:
    problem = Problem(error="the next message came instead of a decision; this was not run", error_type=WITHDRAWN)
    return build_failed_result(call, "cancelled", problem, at)


def build_unknown_result(call: Call, at: float, *, read_only: bool = False) -> Result:
    """Return the result of a call that was running when the server stopped. One that only reads has changed nothing."""
    error = (
        "the server stopped each time this call was running, so it was given up. It only reads: nothing was changed."
        if read_only
        else "the server stopped while this call was running; it may or may not have taken effect. "
        "Find out before asking for it again."
    )
    return build_failed_result(call, "unknown", Problem(error=error, error_type="unknown_outcome"), at)
