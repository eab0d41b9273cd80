"""Observers of stored entries, the correlation id of the running tool, and the masking of secrets."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import TypeVar, cast

from toolyard.core.conversation.events import Durable, Entry
from toolyard.core.masking import MASK, mask_addresses

EventT = TypeVar("EventT", bound=Durable)
Observe = Callable[[Entry], None]
Handler = Callable[[Entry, Durable], None]
Handlers = Mapping[type[Durable], Handler]
"""What an observer does with an entry, by the type of its event. Events of other types do not concern it."""
Observer = Handlers | Observe

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


def bind(kind: type[EventT], handler: Callable[[Entry, EventT], None]) -> Handlers:
    """Bind a handler to the type of event that it takes. The results for several types are joined to one mapping."""
    return {kind: cast(Handler, handler)}


class Observers:
    """Passes stored entries to several observers: to each one the events that concern it.

    A failing observer affects neither the commit nor the other observers.
    """

    def __init__(self, *observers: Observer) -> None:
        """A plain function observes all events."""
        self._observers: list[Handlers | Handler] = []
        self._by_type: dict[type[Durable], list[Handler]] = {}
        """The handlers of an event's type, found once for each type."""
        self._failed: list[Handler] = []
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        """Pass the entries from now on to one more observer."""
        self._observers.append(_ignore_event(observer) if callable(observer) else observer)
        self._by_type.clear()

    def observe(self, entries: Sequence[Entry]) -> None:
        by_type = self._by_type
        for entry in entries:
            event = entry.event
            kind = type(event)
            handlers = by_type.get(kind)
            for handle in self._find_handlers(kind) if handlers is None else handlers:
                try:
                    handle(entry, event)
                except Exception:
                    if handle not in self._failed:  # logged once: it may fail for every entry
                        self._failed.append(handle)
                        log.exception("an observer failed and may miss more; this is said once: %r", handle)

    def _find_handlers(self, kind: type[Durable]) -> list[Handler]:
        candidates = (observer if callable(observer) else observer.get(kind) for observer in self._observers)
        self._by_type[kind] = handlers = [handler for handler in candidates if handler is not None]
        return handlers


def _ignore_event(observe: Observe) -> Handler:
    @wraps(observe)  # a failure is logged under its name
    def handle(entry: Entry, event: Durable) -> None:
        observe(entry)

    return handle
