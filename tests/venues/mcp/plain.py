"""The plain server as a test wants it: what it is told to do, and what it noted."""

import json
import os
import signal
import sys
from pathlib import Path

from toolyard.core.tools.mcp_servers import ServerSpec

SCRIPT = Path(__file__).parent / "servers" / "plain.py"


class PlainServer:
    def __init__(self, folder: Path, *tricks: str, **more: object) -> None:
        self.notes = folder / "notes"
        self.notes.touch()
        args = ("-S", "-E", str(SCRIPT), str(self.notes), *tricks)
        options = {"trust": True, **more}
        self.spec = ServerSpec(command=sys.executable, args=args, **options)  # pyright: ignore[reportArgumentType]

    def add_tools(self, *definitions: dict[str, object]) -> None:
        """Let it list these too, from its next listing on."""
        self.notes.with_suffix(".tools").write_text(json.dumps(definitions))

    def read_notes(self, what: str) -> list[str]:
        """The rest of each line that begins so."""
        lines = self.notes.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{what} ")]

    @property
    def processes(self) -> list[int]:
        return [int(pid) for pid in self.read_notes("process")]

    @property
    def alive(self) -> list[int]:
        return [pid for pid in self.processes if is_alive(pid)]

    def open_gate(self) -> None:
        """Let a server with the trick `gated` answer."""
        self.notes.with_suffix(".open").touch()

    def close_gate(self) -> None:
        self.notes.with_suffix(".open").unlink()

    def kill(self) -> None:
        os.kill(self.processes[-1], signal.SIGKILL)


def is_alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z")


def state_of(pid: int) -> str:
    """R, S, T, Z, …; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
