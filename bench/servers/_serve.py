"""Shared code of the bench's servers: read the model's address from standard input, print the port, serve with uvicorn.

A server ends when its standard input ends.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable


def read_model_url() -> str:
    """Return the model's address from the first line of standard input."""
    return json.loads(sys.stdin.readline())["model"]


def announce_port(port: int) -> None:
    """Print the port; from now on the end of standard input stops the process."""
    print(json.dumps({"port": port, "pid": os.getpid()}), flush=True)
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()


def _stop_at_end_of_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def serve(app: Callable[..., object]) -> None:
    import uvicorn

    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", ws="none", log_config=None, access_log=False, proxy_headers=False
        )
        announce_port(listening.getsockname()[1])
        uvicorn.Server(config).run([listening])
