"""Write the store of a release to `frozen/NAME.db.gz`, which later versions have to open. Run it for each release:

    cd tests && python -m stores.freeze 0.2.0

It runs with the source of an earlier commit as well, with PYTHONPATH=/path/to/earlier/src. The commit e946270, before
the first release, needed a module `toolyard.testing` that re-exports three names of `toolyard`. The file of a release
that was published is never written again.
"""

import asyncio
import gzip
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from toolyard import Caller, RunWaiting, Settings, Yard, tool
from toolyard.testing import Scripted, call, say

FROZEN = Path(__file__).parent / "frozen"
ANN = Caller(user="ann", roles=frozenset({"staff"}), tenant="acme")
LINES = [f"{number}: 40 kg of flour from mill {number % 7}" for number in range(2000)]
"""A result that is too large for the model, and is kept beside the log."""
ANSWER, QUESTION = "Mill 3 delivered most.", "Which mill delivered most flour?"
WAITING_QUESTION, WAITING_ANSWER = "Delete order 7", "Order 7 is deleted."
LONG_S = 3e9
"""A century: the call has to wait until the tests approve it."""


@tool(read_only=True)
def list_deliveries() -> list[str]:
    """List all deliveries."""
    return LINES


@tool(approval="always", approval_s=LONG_S)
def delete_order(number: int) -> str:
    """Delete an order."""
    return f"order {number} is deleted"


TOOLS = [list_deliveries, delete_order]


async def write_store(path: Path) -> None:
    """Write a store with a conversation that has ended, and one whose call waits for an approval."""
    model = Scripted([call("list_deliveries"), say(ANSWER), call("delete_order", number=7)])
    async with Yard(tools=TOOLS, model=model, store=f"sqlite:///{path}") as yard:
        settings = Settings(title="Deliveries", system_prompt="Be brief.")
        await yard.ask(QUESTION, caller=ANN, settings=settings)
        try:
            await yard.ask(WAITING_QUESTION, caller=ANN, settings=Settings(title="Orders"))
        except RunWaiting:
            return
    raise AssertionError("the call does not wait")


def add_key(path: Path) -> None:
    """Add a key to the store. Its secret is thrown away."""
    command = [sys.executable, "-m", "toolyard", "keys", "add", "ops", "--user", "ann", "--role", "operator"]
    subprocess.run([*command, "--store", f"sqlite:///{path}"], check=True, stdout=subprocess.DEVNULL)


def freeze(name: str) -> Path:
    target = FROZEN / f"{name}.db.gz"
    if target.exists():
        raise SystemExit(f"{target} exists: remove it first, if that release was not published yet")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "toolyard.db"
        asyncio.run(write_store(path))
        add_key(path)
        assert not os.path.exists(f"{path}-wal"), "the last connection to close has written everything into the file"
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return target


if __name__ == "__main__":
    sys.stdout.write(f"{freeze(sys.argv[1])}\n")
