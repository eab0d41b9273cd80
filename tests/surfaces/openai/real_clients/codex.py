"""OpenAI's Codex CLI, unchanged, with a server of ours as its provider."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from real_servers import find_node, install_npm_package

RUN_S = 120.0
"""A busy machine may take a while to start Codex and its MCP servers."""
KEY_VARIABLE = "TOOLYARD_KEY"
PLAIN_SERVER = Path(__file__).parents[3] / "venues" / "mcp" / "servers" / "plain.py"


class CodexItem(Struct, frozen=True):
    """What Codex did: said something, ran a command, or called an MCP server."""

    type: str
    text: str = ""
    message: str = ""
    aggregated_output: str = ""
    tool: str = ""
    status: str = ""


class CodexError(Struct, frozen=True):
    message: str


class CodexEvent(Struct, frozen=True):
    type: str
    item: CodexItem | None = None
    error: CodexError | None = None


class CodexAnswer(Struct, frozen=True):
    """The end of one turn of Codex, with what it did on the way."""

    items: Sequence[CodexItem]
    error: str

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.items if item.type == "agent_message")

    def list_outputs(self) -> list[str]:
        return [item.aggregated_output for item in self.items if item.type == "command_execution"]


def build_config(folder: Path, url: str, *, model: str, has_websocket: bool) -> str:
    """Return the configuration for a server of ours, and an MCP server that Codex starts."""
    return f"""
model = "{model}"
model_provider = "yard"

[model_providers.yard]
name = "Yard"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "{KEY_VARIABLE}"
supports_websockets = {"true" if has_websocket else "false"}

[mcp_servers.plain]
command = "{sys.executable}"
args = ["{PLAIN_SERVER}", "{folder / "notes"}"]
"""


class Codex:
    """An installation of Codex with a home of its own, which works in a folder."""

    def __init__(self, folder: Path, config: str) -> None:
        """Set Codex up in a folder with the text of its `config.toml`."""
        self.work, self._home = folder / "work", folder / "home"
        self.work.mkdir()
        self._home.mkdir()
        (self._home / "config.toml").write_text(config)

    async def ask(self, text: str, *, resumes: bool = False) -> CodexAnswer:
        """Give Codex a task, in the thread of the last one if it resumes, and wait for its answer."""
        options = [
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--json",
            "-C",
            str(self.work),
        ]
        task = ["resume", "--last", text] if resumes else [text]
        home = str(self._home)
        program = str(install_npm_package("@openai/codex") / "bin" / "codex.js")
        process = await asyncio.create_subprocess_exec(
            *(find_node()[0], program, "exec", *options, *task),
            env={"PATH": os.environ["PATH"], "HOME": home, "CODEX_HOME": home, KEY_VARIABLE: "none"},
            cwd=self.work,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(RUN_S):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        events = [msgspec.json.decode(line, type=CodexEvent) for line in output.splitlines() if line.startswith(b"{")]
        errors = [event.error.message for event in events if event.error]
        items = [event.item for event in events if event.type == "item.completed" and event.item]
        return CodexAnswer(items, "".join(errors))
