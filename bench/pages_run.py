"""Measure what open pages cost a server while nobody does anything: processor time of the server, for ten pages.

Each page is a signed-in session with an open conversation: its event stream, the runs that wait, and the list of
conversations, requested as often as the page does. `--pages 200 --seconds 30` are the defaults.
"""

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from toolyard.engine.access.authentication import hash_key

USERS = 20
CONVERSATIONS = 40
"""Of each user: as many as the list shows."""
WAITING = 20
RUNS_S, LIST_S, DETAILS_S = 4.0, 20.0, 1.5
"""How often the page requests the open runs, the list of conversations, and the runs of the inbox and of Live."""
TOOLS = '''
from toolyard import tool

@tool(approval="ask", examples=["sell {item}"])
def sell(item: str) -> str:
    """Sell an item."""
    return item
'''


@asynccontextmanager
async def start_server(folder: Path) -> AsyncGenerator[tuple[str, int]]:
    """Start a server with a SQLite store and a key for each user; yield its address and its process id."""
    (folder / "shop.py").write_text(TOOLS)
    keys = "".join(f'[[keys]]\nname = "{n}"\nhash = "{hash_key(f"key-{n}")}"\nuser = "u{n}"\n' for n in range(USERS))
    settings = 'tools = ["./shop.py"]\nport = 0\nstore = "sqlite:///pages.db"\n[log]\nlevel = "error"\n'
    (folder / "toolyard.toml").write_text(f"{settings}[limits]\nrequests_per_minute = 100000\n{keys}")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLYARD_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "toolyard", "serve", cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        while not (address := re.search(rb"http://[\d.:]+", await process.stdout.readline())):
            pass
        yield address[0].decode(), process.pid
    finally:
        process.terminate()
        await process.wait()


def read_cpu_s(pid: int) -> float:
    """Return the processor time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class OpenPage:
    """What one open page does by itself."""

    def __init__(self, http: aiohttp.ClientSession, url: str, number: int) -> None:
        self._http = http
        self._url = url
        self._number = number
        self._headers: dict[str, str] = {}
        self._conversation = ""
        self.requests = 0

    async def sign_in(self) -> None:
        headers = {"origin": self._url}
        body = {"key": f"key-{self._number % USERS}"}
        async with self._http.post(f"{self._url}/session", json=body, headers=headers) as answer:
            answer.raise_for_status()
            self._headers = {"origin": self._url, "cookie": answer.headers["set-cookie"].partition(";")[0]}
        listed = await self._get("conversations?limit=40")
        self._conversation = json.loads(listed)["conversations"][0]["id"]

    async def stay_open(self, start_s: float, *, with_details: bool) -> None:
        """Request what the page requests until this is cancelled. Pages do not all begin at the same moment."""
        await asyncio.sleep(start_s)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._repeat("live", RUNS_S))
            group.create_task(self._repeat("conversations?limit=40", LIST_S))
            if with_details:
                group.create_task(self._repeat("live?details=true", DETAILS_S))

    async def _follow(self) -> None:
        path = f"{self._url}/conversations/{self._conversation}/events?format=entries"
        headers = {**self._headers, "accept": "text/event-stream"}
        async with self._http.get(path, headers=headers) as answer:
            async for _ in answer.content:
                pass

    async def _repeat(self, path: str, every_s: float) -> None:
        while True:
            await self._get(path)
            await asyncio.sleep(every_s)

    async def _get(self, path: str) -> str:
        async with self._http.get(f"{self._url}/{path}", headers=self._headers) as answer:
            answer.raise_for_status()
            self.requests += 1
            return await answer.text()


async def fill(http: aiohttp.ClientSession, url: str) -> None:
    """Create the conversations of all users; some of them have a call that waits for an approval."""
    for number in range(USERS * CONVERSATIONS):
        headers = {"x-api-key": f"key-{number % USERS}"}
        async with http.post(f"{url}/conversations", json={"title": f"Chat {number}"}, headers=headers) as answer:
            conversation = (await answer.json())["conversation"]["id"]
        if number < WAITING:
            path = f"{url}/conversations/{conversation}/chat"
            async with http.post(path, json={"content": "sell milk"}, headers=headers) as answer:
                assert b"waiting" in await answer.read()


async def measure(pages: int, seconds: float, *, with_details: bool) -> tuple[float, float]:
    """Return the processor time that open pages take, as a share of one core, and their requests in a second."""
    connector = aiohttp.TCPConnector(limit=0)
    with tempfile.TemporaryDirectory() as folder:
        async with start_server(Path(folder)) as (url, pid), aiohttp.ClientSession(connector=connector) as http:
            await fill(http, url)
            opened = [OpenPage(http, url, number) for number in range(pages)]
            for page in opened:
                await page.sign_in()
            tasks = [
                asyncio.create_task(page.stay_open(number / pages * RUNS_S, with_details=with_details))
                for number, page in enumerate(opened)
            ]
            await asyncio.sleep(LIST_S / 2 + RUNS_S)
            before, requests_before = read_cpu_s(pid), sum(page.requests for page in opened)
            await asyncio.sleep(seconds)
            used, requests = read_cpu_s(pid) - before, sum(page.requests for page in opened) - requests_before
            assert not any(task.done() for task in tasks), "a page gave up"
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return used / seconds, requests / seconds


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args(arguments)
    for with_details in (False, True):
        share, requests_per_s = asyncio.run(measure(options.pages, options.seconds, with_details=with_details))
        view = "the inbox or Live" if with_details else "a chat"
        print(
            f"{options.pages} pages on {view}: {share:.1%} of a core with {requests_per_s:.0f} requests a second, "
            f"{share / options.pages * 10:.2%} for ten pages"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
