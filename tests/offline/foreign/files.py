"""Files, as MCP's filesystem server has them: bare paths, and descriptions written for a language model."""

from fnmatch import fnmatch
from typing import Annotated

from pydantic import Field

from toolyard import ToolError, tool

FILES: dict[str, str] = {}
FOLDERS: set[str] = set()


def reset() -> None:
    FILES.clear()
    FILES["notes/todo.txt"] = "buy paint\ncall the bank\nrenew passport\n"
    FILES["notes/ideas.md"] = "# Ideas\n- a garden shed\n- learn the cello\n"
    FILES["reports/2026-q3.csv"] = "month,revenue\n7,1200\n8,1350\n9,1410\n"
    FILES["reports/summary.md"] = "# Summary\nRevenue went up by 17 percent.\n"
    FILES["readme.txt"] = "Welcome to the shared drive.\n"
    FOLDERS.clear()
    FOLDERS.update({"notes", "reports"})


def _path(path: str) -> str:
    return path.strip().removeprefix("./").removeprefix("/").rstrip("/")


@tool(
    read_only=True,
    description="Read the complete contents of a file from the file system as text. Use the 'head' parameter to read"
    " only the first N lines of a file, or the 'tail' parameter to read only the last N lines of a file.",
)
def read_text_file(
    path: str,
    head: Annotated[int | None, Field(description="If provided, returns only the first N lines of the file")] = None,
    tail: Annotated[int | None, Field(description="If provided, returns only the last N lines of the file")] = None,
) -> str:
    if _path(path) not in FILES:
        raise ToolError(f"ENOENT: no such file {path}", "not_found")
    lines = FILES[_path(path)].splitlines()
    return "\n".join(lines[:head] if head else lines[-tail:] if tail else lines)


@tool(
    description="Create a new file or completely overwrite an existing file with new content. Use with caution as it"
    " will overwrite existing files without warning.",
)
def write_file(path: str, content: str) -> str:
    FILES[_path(path)] = content
    return f"Successfully wrote to {path}"


@tool(read_only=True)
def list_directory(path: Annotated[str, Field(description="The directory, '.' for the top")] = ".") -> list[str]:
    """Get a detailed listing of all files and directories in a specified path."""
    here = _path(path)
    here = "" if here in ("", ".") else here + "/"
    if here and here.rstrip("/") not in FOLDERS:
        raise ToolError(f"ENOENT: no such directory {path}", "not_found")
    inside = {path[len(here) :].split("/")[0] for path in [*FILES, *FOLDERS] if path.startswith(here)}
    return sorted(f"[DIR] {name}" if here + name in FOLDERS else f"[FILE] {name}" for name in inside)


@tool(idempotent=True)
def create_directory(path: str) -> str:
    """Create a new directory or ensure a directory exists. Can create multiple nested directories in one operation."""
    FOLDERS.add(_path(path))
    return f"Successfully created directory {path}"


@tool
def move_file(source: str, destination: str) -> str:
    """Move or rename files and directories. If the destination exists, the operation will fail."""
    if _path(source) not in FILES:
        raise ToolError(f"ENOENT: no such file {source}", "not_found")
    FILES[_path(destination)] = FILES.pop(_path(source))
    return f"Successfully moved {source} to {destination}"


@tool(read_only=True)
def search_files(
    pattern: Annotated[str, Field(description="Glob such as *.txt")],
    path: Annotated[str, Field(description="Where to begin")] = ".",
) -> list[str]:
    """Recursively search for files and directories matching a pattern. Returns full paths to all matching items."""
    here = _path(path)
    inside = [file for file in FILES if here in ("", ".") or file.startswith(here + "/")]
    return [
        name
        for name in inside
        if any(fnmatch(name, pattern) for name in (name, name.split("/")[-1])) or pattern in name
    ]


@tool(read_only=True)
def get_file_info(path: str) -> dict[str, object]:
    """Retrieve detailed metadata about a file or directory: size, type, permissions."""
    if _path(path) not in FILES:
        raise ToolError(f"ENOENT: no such file {path}", "not_found")
    return {"path": path, "size": len(FILES[_path(path)]), "type": "file", "permissions": "644"}


TOOLS = (read_text_file, write_file, list_directory, create_directory, move_file, search_files, get_file_info)
