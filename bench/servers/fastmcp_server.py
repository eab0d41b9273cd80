"""A server of fastmcp with `add`, or if `BENCH_MCP_URL` names another one, fastmcp's proxy in front of that."""

import os
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.server import create_proxy

sys.path.insert(0, str(Path(__file__).parent))
from _serve import add, read_model_url, serve


def main() -> None:
    read_model_url()
    if url := os.environ.get("BENCH_MCP_URL"):
        server = create_proxy(url)
    else:
        server = FastMCP("bench")
        server.tool(add)
    serve(server.http_app())


if __name__ == "__main__":
    main()
