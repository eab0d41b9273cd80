"""Observers of stored entries, the correlation id of the running tool, and the masking of secrets."""

import logging
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar

from toolyard.core.conversation.events import Entry
from toolyard.core.masking import MASK, mask_addresses

log = logging.getLogger("toolyard")
correlation: ContextVar[str] = ContextVar("toolyard_correlation_id", default="")
"""Set while a tool runs, so that the tool's own log lines carry the id."""

SECRET_KEY = re.compile(r"pass(word|wd|phrase)|secret|token|api[-_]?key|authorization|credential|cookie", re.I)
_SECRET_TEXT = re.compile(
    r"(?i)\b(bearer\s+|sk-|pk-|gh[opsu]_|github_pat_|glpat-|xox[a-z]-|ntn_|secret_|AIza|AKIA|eyJ|ty_)[\w.\-]{8,}"
    r"|\b(pass(?:word|wd)|secret|token|api[-_]?key)(\s*[=:]\s*)\"?[^\s\",;&]{3,}"
)
MAX_DEPTH = 20


def mask_secrets(value: object, depth: int = 0) -> object:
    """Return the value with everything masked that looks like a secret, and without what is nested too deep."""
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, str):
        text = mask_addresses(value)
        return _SECRET_TEXT.sub(lambda match: f"{match[1] or (match[2] + match[3])}{MASK}", text)
    if isinstance(value, Mapping):
        pairs: Mapping[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        return {
            key: MASK if SECRET_KEY.search(str(key)) else mask_secrets(item, depth + 1) for key, item in pairs.items()
        }
    if isinstance(value, list | tuple):
        items: list[object] = list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return [mask_secrets(item, depth + 1) for item in items]
    return value


class Observers:
    """Passes each entry to several observers. A failing observer affects neither the commit nor the other observers."""

    def __init__(self, *observers: Callable[[Entry], None]) -> None:
        self._observers = observers
        self._failed: list[Callable[[Entry], None]] = []

    def observe(self, entry: Entry) -> None:
        for observe in self._observers:
            try:
                observe(entry)
            except Exception:
                if observe not in self._failed:  # logged once: it may fail for every entry
                    self._failed.append(observe)
                    log.exception("an observer failed and may miss more; this is said once: %r", observe)
