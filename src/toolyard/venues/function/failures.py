"""Failures of tools in this process: what an exception says, and results that say `"ok": false`."""

from collections.abc import Mapping
from typing import cast

import msgspec

from toolyard.core.errors import ToolError
from toolyard.core.failed_results import to_problem
from toolyard.core.ports import Failure

_RETRYABLE = frozenset({"unavailable", "timeout"})
_MAX_ERROR_CHARS = 1000


def describe_exception(error: BaseException) -> Failure:
    """Return what a tool raised as a failure, with the exception's own `error_type` and `details` if it has them."""
    if isinstance(error, ToolError):
        problem = to_problem(error.message, error.error_type, error.details)
        return Failure(problem=problem, retryable=error.error_type in _RETRYABLE)
    error_type, details = _get_attribute(error, "error_type"), _get_attribute(error, "details")
    text = _to_text(error)
    own_details = cast(Mapping[str, object], details) if isinstance(details, Mapping) else None
    if isinstance(error_type, str) and error_type:
        return Failure(problem=to_problem(text, error_type, own_details), retryable=error_type in _RETRYABLE)
    problem = to_problem(f"{type(error).__name__}: {text}", "execution_error", own_details)
    return Failure(problem=problem, retryable=True)


def _to_text(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_ERROR_CHARS]
    except Exception:  # the tool's own exception may fail at this too
        return "(its text cannot be told)"


def _get_attribute(error: BaseException, name: str) -> object:
    try:
        return getattr(error, name, None)
    except Exception:  # a property of a tool's own exception may raise anything
        return None


def find_reported_failure(value: object) -> Failure | None:
    """Return a result `{"ok": false, "error": …}` as a failure: an object, a model, or its JSON as a text.

    Its further fields are kept as details.
    """
    fields = _to_fields(value)
    if fields is None or fields.pop("ok", None) is not False:
        return None
    error, error_type = fields.pop("error", None), fields.pop("error_type", None)
    details = fields.pop("details", None)
    if isinstance(details, dict):
        fields |= cast(dict[str, object], details)
    elif details is not None:
        fields["details"] = details
    text = error or "the tool reported a failure without a message"
    problem = to_problem(text, error_type or "execution_error", fields)
    return Failure(problem=problem, retryable=problem.error_type in _RETRYABLE)


def _to_fields(value: object) -> dict[str, object] | None:
    """Return a copy of the fields of an object that says `"ok": false`, or None."""
    if isinstance(value, str):
        return _decode_fields(value)
    if isinstance(value, Mapping):
        return dict(cast(Mapping[str, object], value))
    if getattr(value, "ok", None) is not False:
        return None
    dump = getattr(value, "model_dump", None)  # pydantic
    try:
        fields: object = dump() if callable(dump) else msgspec.to_builtins(value)
    except Exception:  # the value's own code may raise anything
        return None
    return cast(dict[str, object], fields) if isinstance(fields, dict) else None


def _decode_fields(text: str) -> dict[str, object] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return None
