"""What went wrong at a provider, in its own words, as a Problem. It does not know which wire it was.

Providers wrap errors in many ways; whatever can be read is told, and secrets are masked in all of it.
"""

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from toolyard.core.items import Problem

MAX_SHOWN_CHARACTERS = 400
"""Characters of an error that are told; an answer may be a whole page."""
MIN_SECRET_LENGTH = 4
"""A shorter one is a placeholder, and masking it would blot out ordinary words."""


REFUSAL_TEXT = "The provider refused to answer this request."
"""What is said for a model that was stopped before its first word."""


class WireFailure(Exception):
    """A turn cannot go on. It stays inside a wire, which turns it into a TurnFailed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.error)
        self.problem = problem


class _Metadata(Struct):
    raw: object = None


class _ErrorBody(Struct):
    """The fields that any of the shapes puts its words in."""

    error: object = None
    message: object = None
    detail: object = None
    type: object = None
    code: object = None
    metadata: object = None


def build_failure(error: str, error_type: str, **details: object) -> WireFailure:
    return WireFailure(Problem(error=error, error_type=error_type, details=details))


def parse_error_body(body: bytes) -> tuple[str, dict[str, object]]:
    """What an error body says, and the type and code that it names."""
    try:
        return parse_error(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return body.decode("utf-8", "replace"), {}


def parse_error(value: object) -> tuple[str, dict[str, object]]:
    """The same for a body that is decoded already."""
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
    said = body.message if body.message is not None else body.detail
    if said is None:
        return msgspec.json.encode(value).decode(), {}
    words = said if isinstance(said, str) else msgspec.json.encode(said).decode()
    given = {"type": body.type, "code": body.code}
    return words + _find_provider_message(body.metadata), {
        name: item for name, item in given.items() if isinstance(item, str | int)
    }


def _find_provider_message(metadata: object) -> str:
    """OpenRouter says "Provider returned error" and keeps the provider's words in the metadata."""
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
"""How providers say that a request is more than the model takes: there is no status for it."""


_MAX_TOKENS_TOO_LARGE = re.compile(
    r"max_tokens: \d+ > \d+|maximum allowed number of output tokens|max_(?:completion_)?tokens is too large"
)


def suggest_fix(message: str) -> str:
    """What to do about an error that is in the configuration; empty where nobody knows."""
    return (
        "; set a smaller max_tokens for this model in [model_options]" if _MAX_TOKENS_TOO_LARGE.search(message) else ""
    )


def classify_status(status: int, message: str = "") -> str:
    """`said` is what the provider says, with its codes."""
    if status in (400, 413, 422) and _TOO_LARGE.search(message):
        return "too_large"
    if status == 429:
        return "rate_limited"
    if status in (408, 504):
        return "timeout"
    return "unavailable" if status >= 500 else "model_error"


def classify_stream_error(details: dict[str, object]) -> str:
    """There is no status inside a stream: the code or the type must do."""
    code = details.get("code")
    if isinstance(code, int | str) and str(code).isdecimal():
        return classify_status(int(code))
    said = f"{code} {details.get('type')}".lower()
    if _TOO_LARGE.search(said):
        return "too_large"
    if "rate_limit" in said or "throttl" in said:
        return "rate_limited"
    if "timeout" in said:
        return "timeout"
    return "unavailable" if any(word in said for word in _UNAVAILABLE) else "model_error"


_UNAVAILABLE = ("server_error", "api_error", "overloaded", "unavailable", "internal")


def mask_problem(problem: Problem, secrets: Iterable[str] = ()) -> Problem:
    """The problem as it may be shown: short, and without a secret in it, whoever put it there."""
    known = [secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH]
    details = {
        name: _mask(value, known) if isinstance(value, str) else value for name, value in problem.details.items()
    }
    return Problem(error=_mask(problem.error, known), error_type=problem.error_type, details=details)


def _mask(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
