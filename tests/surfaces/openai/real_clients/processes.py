"""Processes of real clients of `/v1`."""

from pathlib import Path

import msgspec
from msgspec import Struct

from real_servers import find_node, install_npm_package
from surfaces.line_process import LineProcess

DRIVERS = Path(__file__).parent / "drivers"
ROOT = Path(__file__).parents[4]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"


class ClientOrder(Struct, frozen=True):
    item: str
    count: int


class ClientAnswer(Struct, frozen=True, kw_only=True):
    """What a client's user sees. An empty `finish` means that the client does not show why an answer ended."""

    text: str | None = ""
    pieces: int = 0
    finish: str = ""
    photos: list[str] = []
    order: ClientOrder | None = None
    error: str = ""
    """The type of the client's exception."""
    message: str = ""


class ClientProcess:
    """A process that drives one client."""

    def __init__(self, package: str) -> None:
        driver = DRIVERS / f"drive_{package.removesuffix('-js').replace('-', '_')}"
        command = (
            [find_node()[0], f"{driver}.mjs", str(install_npm_package("openai"))]
            if package.endswith("-js")
            else [str(PYTHON), f"{driver}.py"]
        )
        self._process = LineProcess(command)

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    async def open(self, url: str, api: str, model: str = "default") -> None:
        """Begin a conversation with a server."""
        await self._request({"url": f"{url}/v1", "api": api, "model": model})

    async def ask(
        self, text: str = "Hello", *, streamed: bool = False, has_tool: bool = False, wants_order: bool = False
    ) -> ClientAnswer:
        """Say something in the conversation, with the tool `take_photo` if asked for."""
        return await self._request(
            {"text": text, "streamed": streamed, "has_tool": has_tool, "wants_order": wants_order}
        )

    async def run_program(self, program: str) -> str:
        """Return the output of a program that uses the client and succeeds."""
        answer = await self._request({"program": program})
        assert not answer.error, (answer.error, answer.message)
        return answer.text or ""

    async def _request(self, request: dict[str, object]) -> ClientAnswer:
        return msgspec.json.decode(await self._process.request(request), type=ClientAnswer)

    def close(self) -> None:
        self._process.close()
