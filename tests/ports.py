"""Ports for servers: one that is listened on, and one that a test reserves for processes that it starts again."""

import socket
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def reserve_port() -> Generator[int]:
    """Yield a port that the system assigns to no other process within the block: it is bound, but not listened on.

    A server that binds the port by its number, with SO_REUSEADDR as servers do, can use it all the same.
    """
    with socket.socket() as bound_socket:
        bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound_socket.bind(("127.0.0.1", 0))
        yield bound_socket.getsockname()[1]


def listen(backlog: int = 100) -> socket.socket:
    """Return a socket that listens on a free port. As with a real server, answers are not held back for more bytes."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
