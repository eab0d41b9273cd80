"""Assembles calls from streamed pieces, also for providers whose indexes and ids do not tell the calls apart."""

import msgspec

from toolyard.core.ports import Clock
from toolyard.models.chat.wire_types import CallDelta
from toolyard.models.shared.arguments import CallInProgress, is_whole


class StreamedCalls:
    """The calls of one turn, in the order in which they began."""

    __slots__ = ("_by_index", "_clock", "_last", "all")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.all: list[CallInProgress] = []
        self._by_index: dict[int, CallInProgress] = {}
        self._last: CallInProgress | None = None

    def add(self, delta: CallDelta) -> tuple[CallInProgress | None, str]:
        """Return the call that a piece belongs to, and the text that it adds to the call's arguments."""
        function = delta.function
        name, text = (function.name or "", _encode_arguments(function.arguments)) if function else ("", "")
        if not (name or text or delta.id):
            return None, ""
        call = self._find_or_start(delta, name, text)
        if name:
            call.name_restated = bool(call.name)
            call.name = name
        call.provider_id = call.provider_id or delta.id or ""
        if text:
            call.fragments.append(text)
            call.name_restated = False
        self._last = call
        if delta.index is not None:
            self._by_index[delta.index] = call
        return call, text

    def _find_or_start(self, delta: CallDelta, name: str, text: str) -> CallInProgress:
        call = self._find_by_id(delta.id, name) if delta.id else None
        if call is None:
            call = self._last if delta.index is None else self._by_index.get(delta.index)
        if call is None or _starts_new_call(call, delta.id or "", name, text):
            another = CallInProgress(len(self.all), self._clock.new_id("call"))
            if call is not None and call.name_restated:
                another.name = call.name
            self.all.append(another)
            return another
        return call

    def _find_by_id(self, provider_id: str, name: str) -> CallInProgress | None:
        """Return the call with the id of a piece without a name: a repeated id counts more than the index."""
        if name:
            return None
        return next((call for call in reversed(self.all) if call.provider_id == provider_id), None)


def _starts_new_call(call: CallInProgress, provider_id: str, name: str, text: str) -> bool:
    """Return whether a piece cannot belong to the call that its index (or its position) points to.

    Another id or another name is another call. So is a second object after a complete one if the name was repeated:
    providers that use one index and no ids for all calls give no other sign.
    """
    if provider_id and call.provider_id and provider_id != call.provider_id:
        return True
    if name and call.name and name != call.name:
        return True
    if not (name or call.name_restated) or not text.lstrip().startswith("{"):
        return False
    return is_whole(call.fragments) and not text.startswith("".join(call.fragments[-1:]).rstrip())


def _encode_arguments(arguments: object) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
