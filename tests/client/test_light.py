"""The client needs nothing of the server."""

import subprocess
import sys

HEAVY = ("litestar", "uvicorn", "uvloop", "jwt", "rich", "opentelemetry", "mcp")


def test_the_client_loads_nothing_of_the_server() -> None:
    code = f"import sys, toolyard.client; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
