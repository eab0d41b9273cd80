"""Builds the answer of a program that has ended: its value and what it printed, or why there is none."""

from collections.abc import Sequence

from toolyard.core.items import Problem
from toolyard.core.ports import Failure, Value

MAX_NAMED = 5
MAX_ERROR_CHARS = 4000


def build_program_value(value: object, printed: str, not_awaited: Sequence[str]) -> Value:
    """Return the answer of a program. `not_awaited` are the tools of calls that it made and never waited for."""
    answer: dict[str, object] = {"value": value}
    if printed:
        answer["printed"] = printed
    if not_awaited:
        names = ", ".join(not_awaited[:MAX_NAMED])
        answer["note"] = f"{len(not_awaited)} calls were not awaited and did not run: {names}"
    return Value(value=answer)


def build_program_failure(error: str, printed: str, error_type: str = "program_error") -> Failure:
    """Return the failure of a program. The end of a long error is kept: it names what was raised."""
    details: dict[str, object] = {"printed": printed} if printed else {}
    return Failure(problem=Problem(error=error[-MAX_ERROR_CHARS:], error_type=error_type, details=details))
