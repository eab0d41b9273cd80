"""What every server of the bench does alike: it is told of its model on standard input, tells where it listens, and
ends when its standard input does. It knows no framework but uvicorn, by which all of them are served.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable


def told() -> str:
    """The model's address."""
    return json.loads(sys.stdin.readline())["model"]


def tell(port: int) -> None:
    """Say where it listens; from now on the end of standard input stops the process."""
    print(json.dumps({"port": port, "pid": os.getpid()}), flush=True)
    threading.Thread(target=_stop_when_alone, daemon=True).start()


def _stop_when_alone() -> None:
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
        tell(listening.getsockname()[1])
        uvicorn.Server(config).run([listening])
