"""A port of one's own, for a server that a test starts, stops and starts again in another process."""

import socket
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def held_port() -> Generator[int]:
    """A port that the system gives to nobody else meanwhile: it is bound, but nobody listens.

    Who asks for it by its number (with SO_REUSEADDR, as servers do) gets it all the same.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
