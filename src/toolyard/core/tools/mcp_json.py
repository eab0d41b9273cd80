"""Parse a file of MCP servers in a format of other programs. Pure.

Many programs share `{"mcpServers": {"files": {"command": …}}}`. Others write `{"servers": {"files": {…}}}`, or a list:
`{"servers": [{"name": "files", "command": …}]}`, where the settings may also stand under `config`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Literal, cast

import msgspec
from msgspec import Struct

from toolyard.core.errors import Misconfigured
from toolyard.core.tools.mcp_servers import ServerSpec, build_server_id

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class _ServerEntry(Struct):
    """The settings of a server in such a file; settings that only other programs use are ignored."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] | None = None
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    disabled: bool = False
    replicas: Literal["one", "each"] = "one"
    """A setting of ours: see `ServerSpec.replicas`."""


class _ListedEntry(_ServerEntry):
    """A server in a list."""

    name: str = ""
    slug: str | None = None
    config: "_ListedEntry | None" = None


class _McpJson(Struct):
    mcpServers: dict[str, _ServerEntry] | None = None  # noqa: N815 - the format's name
    servers: dict[str, _ServerEntry] | list[_ListedEntry] | None = None


def parse_mcp_servers(
    content: bytes, file: str, environment: Mapping[str, str], base: PurePath
) -> dict[str, ServerSpec]:
    """Return the servers of a file by id. Raise Misconfigured with the server that is wrong.

    `file` names the file in errors, and relative paths in it are relative to `base`.
    """
    try:
        listed = msgspec.json.decode(content, type=_McpJson)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Misconfigured(f"{_describe_form(file)}: {error}") from None
    specs: dict[str, ServerSpec] = {}
    for server_id, name, entry in _iter_entries(file, listed):
        where = f"{file}: the server {name!r}"
        if server_id in specs:
            raise Misconfigured(f"{where} is listed twice")
        if not entry.disabled:
            display_name = name if name != server_id else ""
            specs[server_id] = _build_spec(where, entry, display_name, base, environment)
    return specs


def _describe_form(file: str) -> str:
    return f'{file} is not of the form {{"mcpServers": {{"NAME": {{…}}}}}} or {{"servers": […]}}'


def _iter_entries(file: str, content: _McpJson) -> Iterator[tuple[str, str, _ServerEntry]]:
    """Yield the id, the name and the settings of each server. Raise Misconfigured for one without a name."""
    entries = content.servers if content.mcpServers is None else content.mcpServers
    if entries is None:
        raise Misconfigured(_describe_form(file))
    if isinstance(entries, dict):
        yield from ((name, name, entry) for name, entry in entries.items())
        return
    for number, listed in enumerate(entries, 1):
        config = listed.config or listed
        name, slug = config.name or listed.name, listed.slug or config.slug
        server_id = build_server_id(slug or name)
        if not server_id:
            raise Misconfigured(f"{file}: the server number {number} has no name that an id can be made of")
        yield server_id, name or server_id, config


def _build_spec(
    where: str, entry: _ServerEntry, display_name: str, base: PurePath, environment: Mapping[str, str]
) -> ServerSpec:
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
        display_name=display_name,
        command=fill_variables(entry.command),
        args=tuple(map(fill_variables, entry.args)),
        env={name: fill_variables(text) for name, text in (entry.env or {}).items()},
        cwd=str(base / fill_variables(entry.cwd)) if entry.cwd else "",
        url=fill_variables(entry.url or ""),
        headers={name: fill_variables(text) for name, text in (entry.headers or {}).items()},
        replicas=entry.replicas if entry.command else "one",
    )
