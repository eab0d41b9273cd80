"""Reads providers' errors into Problems, for every wire.

Providers wrap errors in many shapes: the message is taken from whichever is recognised, else the body is shown as it
is. Secrets are masked in all of it.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from toolyard.core.items import Problem

MAX_SHOWN_CHARACTERS = 400
"""Characters of an error that are shown; an answer may be a whole page."""
MIN_SECRET_LENGTH = 4
"""A shorter secret is a placeholder, and masking it would hide ordinary words."""
REFUSAL_TEXT = "The provider refused to answer this request."
"""The text of an answer that the provider blocked before its first word."""


class WireFailure(Exception):
    """The turn failed. Raised inside a wire only, which turns it into a TurnFailed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.error)
        self.problem = problem


class _Metadata(Struct):
    raw: object = None


class _ErrorBody(Struct):
    """The fields of all known shapes that may hold the message."""

    error: object = None
    message: object = None
    detail: object = None
    type: object = None
    code: object = None
    metadata: object = None


def build_failure(error: str, error_type: str, **details: object) -> WireFailure:
    return WireFailure(Problem(error=error, error_type=error_type, details=details))


def parse_error_body(body: bytes) -> tuple[str, dict[str, object]]:
    """Return the message of an error body, and the type and code that it names."""
    try:
        return parse_error(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return body.decode("utf-8", "replace"), {}


def parse_error(value: object) -> tuple[str, dict[str, object]]:
    """Return the same for a decoded body."""
    if isinstance(value, list) and len(value) == 1:  # pyright: ignore[reportUnknownArgumentType]
        return parse_error(value[0])  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, str):
        return value, {}
    try:
        body = msgspec.convert(value, _ErrorBody)
    except msgspec.ValidationError:
        return msgspec.json.encode(value).decode(), {}
    if body.error is not None and not isinstance(body.error, bool):
        return parse_error(body.error)
    message = body.message if body.message is not None else body.detail
    if message is None:
        return msgspec.json.encode(value).decode(), {}
    words = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    codes = {"type": body.type, "code": body.code}
    return words + _find_provider_message(body.metadata), {
        name: item for name, item in codes.items() if isinstance(item, str | int)
    }


def _find_provider_message(metadata: object) -> str:
    """Return the message in the metadata: OpenRouter itself says only "Provider returned error"."""
    try:
        raw = msgspec.convert(metadata, _Metadata).raw
    except msgspec.ValidationError:
        return ""
    return f" ({raw})" if isinstance(raw, str) and raw else ""


_TOO_LARGE = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|prompt is too long|input length should be"
    r"|input token count .{0,40}exceeds|exceeds? the (?:available )?context|exceed context limit|request_too_large",
    re.IGNORECASE,
)
"""Providers' messages for a request that exceeds the context window; there is no status code for it."""
_MAX_TOKENS_TOO_LARGE = re.compile(
    r"max_tokens: \d+ > \d+|maximum allowed number of output tokens|max_(?:completion_)?tokens is too large"
)


def suggest_fix(message: str) -> str:
    """Return what to change in the configuration, as the end of a message; empty for any other error."""
    return (
        "; set a smaller max_tokens for this model in [model_options]" if _MAX_TOKENS_TOO_LARGE.search(message) else ""
    )


_QUOTA = re.compile(
    r"insufficient_quota|billing_hard_limit|billing_not_active|credit balance is too low|insufficient balance"
    r"|insufficient credits|arrearage",
    re.IGNORECASE,
)
"""Providers' messages for an account without credit. OpenAI answers 429 to that, Anthropic 400, DeepSeek 402."""
_FILTERED = re.compile(
    r"content_filter|content_policy_violation|responsibleaipolicyviolation|data_?inspection_?failed"
    r"|moderation_blocked|flagged as potentially violating",
    re.IGNORECASE,
)
"""Providers' messages for a request that their content filter refuses."""


def classify_status(status: int, message: str = "") -> str:
    """Return the error type of a status. `message` is the provider's message with its codes."""
    if status == 402 or (status < 500 and _QUOTA.search(message)):
        return "quota_exceeded"
    if status in (400, 413, 422) and _TOO_LARGE.search(message):
        return "too_large"
    if status in (400, 403, 422) and _FILTERED.search(message):
        return "content_filter"
    if status == 429:
        return "rate_limited"
    if status in (408, 504):
        return "timeout"
    return "unavailable" if status >= 500 else "model_error"


def classify_stream_error(details: dict[str, object], message: str = "") -> str:
    """Return the error type of an error inside a stream, which has no status, by its code, type or message."""
    code = details.get("code")
    if isinstance(code, int | str) and str(code).isdecimal():
        return classify_status(int(code), f"{message} {details}")
    codes = f"{code} {details.get('type')}".lower()
    for pattern, error_type in ((_QUOTA, "quota_exceeded"), (_TOO_LARGE, "too_large"), (_FILTERED, "content_filter")):
        if pattern.search(f"{codes} {message}"):
            return error_type
    if "rate_limit" in codes or "throttl" in codes:
        return "rate_limited"
    if "timeout" in codes:
        return "timeout"
    return "unavailable" if any(word in codes for word in _UNAVAILABLE) else "model_error"


_UNAVAILABLE = ("server_error", "api_error", "overloaded", "unavailable", "internal")


def mask_problem(problem: Problem, secrets: Iterable[str] = ()) -> Problem:
    """Return the problem as it may be shown: short, and without secrets, which a provider may have repeated."""
    maskable = [secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH]
    details = {
        name: _mask(value, maskable) if isinstance(value, str) else value for name, value in problem.details.items()
    }
    return Problem(error=_mask(problem.error, maskable), error_type=problem.error_type, details=details)


def _mask(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
