"""The virtual environments of the peers, which are created on first use. A peer that is missing is an error."""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".venv-peers"
INSTALL_S = 600
IMPORT_S = 120
VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


@dataclass(frozen=True)
class Peer:
    """A library that Toolyard is compared with."""

    name: str
    package: str
    """The distribution whose version the report shows."""
    pins: tuple[str, ...]
    imports: str
    """Code that imports the peer."""
    ready: str
    """Code with imports, one tool and one agent: all that a first request needs."""
    home: Path = HOME
    """Its virtual environment: one of its own for a peer whose requirements exclude those of others."""

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"


ADD = "async def add(a: int, b: int) -> int: return a + b"
PEERS = (
    Peer(
        "pydantic-ai",
        "pydantic-ai-slim",
        ("pydantic-ai-slim[openai]==2.66.0",),
        "import pydantic_ai",
        f"""
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
{ADD}
Agent(OpenAIChatModel("x", provider=OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="x")), tools=[add])
""",
    ),
    Peer(
        "openai SDK",
        "openai",
        ("openai==3.49.0",),
        "import openai",
        'import openai; openai.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="x").chat.completions',
    ),
    Peer(
        "openai-agents",
        "openai-agents",
        ("openai-agents==0.24.0",),
        "import agents",
        f"""
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
{ADD}
client = AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="x")
Agent(name="x", model=OpenAIChatCompletionsModel(model="x", openai_client=client), tools=[function_tool(add)])
""",
    ),
    Peer(
        "langgraph",
        "langgraph",
        ("langgraph==1.2.20", "langchain-openai==1.7.3"),
        "import langgraph.prebuilt",
        f"""
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
{ADD}
model = ChatOpenAI(model="x", base_url="http://127.0.0.1:9/v1", api_key="x")
create_react_agent(model, [StructuredTool.from_function(coroutine=add, name="add", description="Add.")])
""",
    ),
)


class PeerError(Exception):
    """A peer cannot be used; the message says what to install."""


def install_peers(chosen: Iterable[Peer], show_progress: Callable[[str], None]) -> dict[str, str]:
    """Install the peers that are missing, and return the version of each. Raise PeerError."""
    peers = list(chosen)
    for peer in peers:
        if not peer.python.exists():
            show_progress(f"making {peer.home.name}")
            subprocess.run([sys.executable, "-m", "venv", str(peer.home)], check=True, capture_output=True)
        if find_fault(peer):
            show_progress(f"installing {peer.name}")
            _install(peer)
    require(peers)
    return _read_versions(peers)


def require(peers: Iterable[Peer]) -> None:
    """Raise PeerError with every peer that cannot be imported, and how to install it."""
    faults = [
        f"{peer.name} cannot be used ({fault}): {peer.python} -m pip install {' '.join(map(shlex.quote, peer.pins))}"
        for peer in peers
        if (fault := find_fault(peer))
    ]
    if faults:
        raise PeerError("\n".join([*faults, "Without peers, their rows are left out: bench/run.py --no-peers"]))


def find_fault(peer: Peer) -> str:
    """Return the last line of the error that importing a peer raises, or an empty text."""
    command = [str(peer.python), "-W", "ignore", "-c", peer.ready or peer.imports]
    process = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_S, check=False)
    return (
        (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1] if process.returncode else ""
    )


def _install(peer: Peer) -> None:
    command = [str(peer.python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *peer.pins]
    with suppress(subprocess.TimeoutExpired):  # `require` then reports the peer as missing
        subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)


def _read_versions(peers: list[Peer]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for peer in peers:
        command = [str(peer.python), "-c", VERSION, peer.package]
        versions[peer.name] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return versions
