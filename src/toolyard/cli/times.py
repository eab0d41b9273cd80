"""Read times and durations from the command line, and print times."""

import re
import time
from datetime import datetime

from toolyard.cli.common import UsageError

_DURATION = re.compile(r"(\d{1,6}(?:\.\d+)?)([smhd])")
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 30m, 24h or 7d. Raise UsageError for any other text."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text[:40]!r} is not a duration: write 90s, 30m, 24h or 7d")
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def parse_time(text: str, *, is_past: bool = False) -> float:
    """Return the time that a text names; 0 for an empty one. Raise UsageError.

    It is a date, or a duration: from now on, or with `is_past` before now.
    """
    if not text:
        return 0.0
    if _DURATION.fullmatch(text.strip()):
        return time.time() + parse_duration(text) * (-1 if is_past else 1)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):  # a year that the clock of this machine does not have
        raise UsageError(f"{text[:40]!r} is not a time: write 2027-01-31, 2027-01-31T12:00 or 30d") from None


def format_time(at: float, never: str = "") -> str:
    """Return a time to the minute, or `never` for 0."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M") if at else never
