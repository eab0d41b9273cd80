"""What clients are told of a model's failure: one status, code and headers on every API. Pure."""

from collections.abc import Mapping
from math import ceil

from msgspec import Struct

from toolyard.core.items import Problem
from toolyard.core.model_failures import (
    BUDGET_EXCEEDED,
    CONTENT_FILTER,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    RETRYABLE_ERROR_TYPES,
    TIMEOUT,
    TOO_LARGE,
    UNAVAILABLE,
)

MODEL_ERROR = "model_error"
"""The code of a failure that neither the client nor time can mend, such as a wrong key of this server's."""
OVERLOADED = "overloaded_error"
OVERLOADED_STATUS = 529
DEFAULT_RETRY_AFTER_S = 2.0
"""When to try again after a failure that passes by itself, if the provider does not say."""
MAX_RETRY_AFTER_S = 86_400
_STATUS_AND_CODE: Mapping[str, tuple[int, str]] = {
    RATE_LIMITED: (429, "rate_limit_exceeded"),
    QUOTA_EXCEEDED: (429, "insufficient_quota"),
    BUDGET_EXCEEDED: (402, BUDGET_EXCEEDED),
    TOO_LARGE: (400, "context_length_exceeded"),
    CONTENT_FILTER: (400, "content_filter"),
    UNAVAILABLE: (503, "server_error"),
    TIMEOUT: (503, "server_error"),
}


class FailureAnswer(Struct, frozen=True, kw_only=True):
    """How a failed run is answered."""

    status: int
    code: str
    error_type: str
    headers: dict[str, str]

    @property
    def details(self) -> dict[str, object]:
        """Return what an error object that comes without status and headers says instead."""
        after = self.headers.get("retry-after")
        return {"code": self.code, **({"retry_after_s": int(after)} if after else {})}


def describe_failure(problem: Problem) -> FailureAnswer:
    """Return the answer to a run that failed with this problem."""
    status, code = _STATUS_AND_CODE.get(problem.error_type, (502, MODEL_ERROR))
    if problem.error_type == UNAVAILABLE and _is_overload(problem.details):
        code = OVERLOADED
    return FailureAnswer(
        status=status,
        code=code,
        error_type=problem.error_type if problem.error_type in _STATUS_AND_CODE else MODEL_ERROR,
        headers=_build_headers(problem),
    )


def _is_overload(details: Mapping[str, object]) -> bool:
    return details.get("status") == OVERLOADED_STATUS or "overloaded" in f"{details.get('type')} {details.get('code')}"


def _build_headers(problem: Problem) -> dict[str, str]:
    if problem.error_type in (QUOTA_EXCEEDED, BUDGET_EXCEEDED):
        return {"x-should-retry": "false"}
    default_s = None if problem.error_type == RATE_LIMITED else DEFAULT_RETRY_AFTER_S
    seconds = problem.details.get("retry_after_s", default_s)
    if problem.error_type not in RETRYABLE_ERROR_TYPES or not isinstance(seconds, int | float):
        return {}
    return {"retry-after": str(min(MAX_RETRY_AFTER_S, max(1, ceil(seconds))))}
