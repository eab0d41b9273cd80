"""The messages that replicas send each other over the store's bus. Each is a hint: the store holds the facts."""

import msgspec
from msgspec import Struct

from toolyard.core.conversation.events import Fleeting


class LogGrew(Struct, frozen=True, tag="grew"):
    """Entries were committed to a conversation that the receiver follows."""

    conversation: str


class FollowerJoined(Struct, frozen=True, tag="joined"):
    """Readers of a replica follow a conversation that the receiver owns, and need what is live there."""

    conversation: str
    replica: str


class LiveEvents(Struct, frozen=True, tag="live"):
    """Fleeting events of a conversation, published by the owner of this epoch."""

    conversation: str
    epoch: int
    events: tuple[Fleeting, ...]


class CommandForwarded(Struct, frozen=True, tag="mail"):
    """A command was forwarded for a conversation that the receiver owns."""

    conversation: str


class CommandAnswered(Struct, frozen=True, tag="answered"):
    """A command that the receiver forwarded has its outcome."""

    key: str


class DeletionNotice(Struct, frozen=True, tag="deleted"):
    """A conversation that the receiver owns or follows was deleted."""

    conversation: str


Message = LogGrew | FollowerJoined | LiveEvents | CommandForwarded | CommandAnswered | DeletionNotice

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def encode_message(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_message(body: bytes) -> Message:
    return _decoder.decode(body)
