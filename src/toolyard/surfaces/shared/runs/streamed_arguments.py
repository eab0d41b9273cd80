"""The arguments of a call that are streamed as the model writes them. Pure."""

import msgspec
from msgspec import Struct

from toolyard.core.conversation.events import ArgumentsAppended
from toolyard.core.errors import Unavailable
from toolyard.core.items import Call
from toolyard.core.utf8 import utf8_size


class StreamedCall(Struct):
    """A call whose arguments are being streamed."""

    index: int = 0
    """The index of the call in the answer."""
    tool: str = ""
    number: int = 0
    """The number of the call among those that the stream shows of a turn."""
    text: str = ""
    sent_bytes: int = 0
    has_ended: bool = False
    """Whether the client was shown the end of the call."""

    @property
    def is_whole(self) -> bool:
        return _is_json(self.text)

    def add(self, event: ArgumentsAppended) -> str:
        """Return the part of a delta that was not sent yet, and count it as sent."""
        unsent = cut_sent(event.text, event.offset, self.sent_bytes)
        self.text += unsent
        self.sent_bytes += utf8_size(unsent)
        return unsent


def cut_sent(text: str, offset: int, sent_bytes: int) -> str:
    """Return the part of a delta that comes after the bytes that were sent; empty for one after a gap.

    Deltas other than those of the text are read again whole, when a reader has fallen behind for example.
    """
    if offset == sent_bytes:
        return text
    return text.encode()[sent_bytes - offset :].decode(errors="ignore") if offset < sent_bytes else ""


def find_missing(call: Call, streamed: str) -> str:
    """Return what the streamed arguments lack. Raise Unavailable if that is unknown, as the model wrote otherwise."""
    whole = msgspec.json.encode(call.arguments).decode()
    if not streamed.strip() or whole.startswith(streamed):
        return whole[len(streamed) :] if streamed.strip() else whole
    if call.unreadable or _is_json(streamed):
        return ""
    raise Unavailable("the stream fell behind in the middle of a call: send the request again to go on")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True
