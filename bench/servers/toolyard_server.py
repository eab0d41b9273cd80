"""Toolyard's server, as `toolyard serve` starts it, with the store that `TOOLYARD_STORE` names.

`BENCH_MCP_URL` names an MCP server behind it, whose `add` it offers as `add_behind`. With `BENCH_APPROVAL=ask`, each
call of its own `add` waits for an approval.
`TOOLYARD_PROFILE` names a file for a profile of it: `TOOLYARD_PROFILE=/tmp/x.prof python bench/server_run.py …`.
"""

import cProfile
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

from toolyard import Limits, Yard, tool
from toolyard.app import Wiring
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.server.serving import serve

sys.path.insert(0, str(Path(__file__).parent))
from _serve import add, announce_port, read_model_url

MANY = 1_000_000


def announce(url: str, yard: Yard) -> None:
    announce_port(urlsplit(url).port or 0)


def main() -> None:
    limits = Limits(turns_per_request=MANY, turns_per_conversation=MANY)  # the long conversation is one run
    url = os.environ.get("BENCH_MCP_URL", "")
    wiring = Wiring(
        model=f"{read_model_url()}/v1#bench",
        tools=(tool(approval="ask")(add) if os.environ.get("BENCH_APPROVAL") == "ask" else add,),
        servers={"behind": ServerSpec(url=url, names={"add": "add_behind"}, trust=True)} if url else {},
        store=os.environ["TOOLYARD_STORE"],
        limits=limits,
    )
    profile_file = os.environ.get("TOOLYARD_PROFILE")
    with cProfile.Profile() if profile_file else nullcontext() as profile:
        serve(wiring, "127.0.0.1", 0, announce)
    if profile and profile_file:
        profile.dump_stats(profile_file)


if __name__ == "__main__":
    main()
