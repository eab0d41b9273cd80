"""The client needs nothing of the server: it works where only what `toolyard[client]` brings along is installed."""

import asyncio
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard.core.items import Result
from toolyard.testing import Scripted, call, say

SOURCES = Path(__file__).parents[2] / "src"
HEAVY = ("litestar", "uvicorn", "uvloop", "jwt", "rich", "opentelemetry", "mcp")
APP = f"""
import asyncio, importlib.util, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path] + sys.argv[1:3]
from toolyard.client import AppClient
from toolyard.core.errors import Misconfigured

def double(number: int) -> int:
    "Twice a number."
    return 2 * number

async def main():
    async with AppClient(sys.argv[3], tools=[double]) as app:
        print(await app.ask("Twice 21?"))
    try:
        async with AppClient(sys.argv[3], servers={{"shop": {{"command": "shop"}}}}):
            pass
    except Misconfigured as error:
        print(error)

asyncio.run(main())
print([name for name in {HEAVY} if importlib.util.find_spec(name)])
"""


def collect_requirements(name: str, extras: Iterable[str], names: set[str]) -> set[str]:
    """The distributions that come with this one, and it."""
    if name in names:
        return names
    names.add(name)
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            collect_requirements(requirement.name, requirement.extras, names)
    return names


def link_client_alone(folder: Path) -> None:
    """The files of those distributions, and of no other."""
    for name in collect_requirements("toolyard", ["client"], set()) - {"toolyard"}:
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(package.locate_file(top))))


async def test_an_app_with_the_client_alone_uses_its_tools(tmp_path: Path) -> None:
    link_client_alone(tmp_path)
    model = Scripted([call("double", number=21), say("42")])

    async def run() -> bytes:
        async with asyncio.timeout(120), build_yard(model) as yard, serve_yard(yard) as url:
            words = [sys.executable, "-I", "-c", APP, str(SOURCES), str(tmp_path), url]
            process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
            return (await process.communicate())[0]

    answer, servers, heavy = (await run()).decode().splitlines()
    assert answer == "42" and heavy == "[]"
    assert "pip install 'toolyard[mcp]'" in servers
    (call_result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert call_result.content == "42"


def test_the_client_loads_nothing_of_the_server() -> None:
    code = f"import sys, toolyard.client; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
