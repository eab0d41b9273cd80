"""Read a file of MCP servers in the format that many programs share: `{"mcpServers": {"files": {"command": …}}}`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, cast

import msgspec
from msgspec import Struct

from toolyard.core.errors import Misconfigured
from toolyard.core.mcp_servers import ServerSpec

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class _ServerEntry(Struct):
    """The settings of a server in such a file; settings that only other programs use are ignored."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False
    replicas: Literal["one", "each"] = "one"
    """A setting of ours: see `ServerSpec.replicas`."""


class _McpJson(Struct):
    mcpServers: dict[str, _ServerEntry]  # noqa: N815 - the format's name


def load_mcp_servers(path: Path, environment: Mapping[str, str]) -> dict[str, ServerSpec]:
    """Return the servers of a file by name. Raise Misconfigured with the server that is wrong."""
    try:
        entries = msgspec.json.decode(path.read_bytes(), type=_McpJson).mcpServers
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Misconfigured(f'{path} is not of the form {{"mcpServers": {{"NAME": {{…}}}}}}: {error}') from None
    return {
        name: _build_spec(f"{path}: the server {name!r}", entry, path.parent, environment)
        for name, entry in entries.items()
        if not entry.disabled
    }


def _build_spec(where: str, entry: _ServerEntry, base: Path, environment: Mapping[str, str]) -> ServerSpec:
    if bool(entry.command) == bool(entry.url):
        raise Misconfigured(f"{where} must have a command or a url, one of them")

    def fill_variables(text: str) -> str:
        def look_up(variable: re.Match[str]) -> str:
            name, default = variable[1], cast(str | None, variable[2])
            value = environment.get(name, default)
            if value is None:
                raise Misconfigured(f"{where} needs the environment variable {name}, which is not set")
            return value

        return _VARIABLE.sub(look_up, text)

    return ServerSpec(
        command=fill_variables(entry.command),
        args=tuple(map(fill_variables, entry.args)),
        env={name: fill_variables(text) for name, text in entry.env.items()},
        cwd=str(base / fill_variables(entry.cwd)) if entry.cwd else "",
        url=fill_variables(entry.url),
        headers={name: fill_variables(text) for name, text in entry.headers.items()},
        replicas=entry.replicas if entry.command else "one",
    )
