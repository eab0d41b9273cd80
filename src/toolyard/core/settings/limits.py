"""Limits of runs, of sessions, of WebSockets, and of the tools shown to a model."""

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolyard.core.settings.types import Count, CountOrZero, Seconds


class Limits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a run and of its conversation. Zero tokens means no limit."""

    turns_per_request: Count = 50
    turns_per_conversation: Count = 200
    run_seconds: Seconds = 600.0
    run_tokens: CountOrZero = 0
    calls_per_turn: Count = 64
    parallel_calls: Count = 16
    queued_messages: Count = 16
    program_calls: Count = 200
    """Calls of one program that the model writes for `run_code`."""
    program_step_seconds: Seconds = 5.0
    """How long a program may compute between two calls."""
    program_seconds: Seconds = 60.0
    """How long a program may compute in all, without the time that its calls take."""
    program_memory_bytes: Count = 64 * 1024 * 1024
    program_printed_bytes: Count = 8 * 1024
    """How much of what a program prints the model is shown."""
    program_value_bytes: Count = 4 * 1024 * 1024
    """The largest result of a call that a program is given, and the largest value that it may return."""
    program_argument_bytes: Count = 256 * 1024
    """The largest arguments of one call of a program, as JSON."""

    def cap_to(self, other: "Limits") -> "Limits":
        """Return these limits, each reduced to that of `other` where it is larger."""
        capped = {
            name: min(value, getattr(other, name)) for name, value in asdict(self).items() if name != "run_tokens"
        }
        tokens = [tokens for tokens in (self.run_tokens, other.run_tokens) if tokens]
        return Limits(**capped, run_tokens=min(tokens, default=0))

    def follow_lowered(self, before: "Limits", after: "Limits") -> "Limits":
        """Return these limits, each reduced to that of `after`, unless it is above that of `before`.

        Those above were chosen for a conversation or a request, and do not come from the limits that were lowered.
        """
        capped = self.cap_to(after)
        above = {name: value for name, value in asdict(self).items() if _is_above(value, getattr(before, name))}
        return replace(capped, **above)

    def find_reached(self, *, turns: int, conversation_turns: int, tokens: int) -> str:
        """Return the name of the limit that ends a run before its next turn, or "" while it may go on."""
        if turns >= self.turns_per_request:
            return "turns_per_request"
        if conversation_turns >= self.turns_per_conversation:
            return "turns_per_conversation"
        return "run_tokens" if self.run_tokens and tokens >= self.run_tokens else ""


def _is_above(value: float, other: float) -> bool:
    """Return whether a limit allows more than another; zero means no limit."""
    return bool(other) and (value > other or not value)


class LimitsConfig(Limits, frozen=True, kw_only=True):
    """The limits of runs, of the programs in them, and of the requests that start them."""

    requests_per_minute: Count = 30
    """New requests of each caller; tool results and decisions do not count."""

    @property
    def run_limits(self) -> Limits:
        """The limits that the run loop enforces; requests per minute are counted before a run starts."""
        return msgspec.convert(self, Limits, from_attributes=True)


class SessionLimits(Struct, frozen=True, kw_only=True):
    """How long people who signed in to the web page stay signed in, and whether they need https."""

    idle_s: Seconds = 12 * 3600.0
    """A session that is not used for so long ends."""
    total_s: Seconds = 14 * 24 * 3600.0
    """A session ends after so long, however much it is used."""
    allow_http: bool = False
    """Whether people on other machines may sign in without https, on a network that is trusted."""


class SocketLimits(Struct, frozen=True, kw_only=True):
    """Limits of WebSockets, and of the requests of one user at a time.

    The number and the size of messages are bounded as those of HTTP requests are.
    """

    max_idle_s: float = 600.0
    """A connection without a message or a response for so long is closed."""
    max_age_s: float = 3600.0
    """A connection is closed after this time, between two responses, as OpenAI does."""
    max_send_s: float = 60.0
    """How long one message to the client may take; a client that reads nothing is disconnected."""
    max_waiting_messages: int = 16
    """Messages that wait while a response is streamed. A connection with more of them is closed."""
    max_kept_responses: int = 16
    """Responses with `store: false` that a connection keeps."""
    max_kept_bytes: int = 16 * 1024 * 1024
    max_user_connections: int = 64
    """Connections of one user to this process. The handshake of another one is refused."""
    max_connections: int = 2048
    max_user_requests: int = 512
    """HTTP requests of one user that this process answers at a time, streams included. Another one is refused."""


DEFAULT_SOCKET_LIMITS = SocketLimits()


class Budget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many tools a model is shown at once; it can find further ones with `find_tools`."""

    tools: Count = 64
    schema_bytes: Count = 40 * 1024
    """About 10,000 tokens."""
