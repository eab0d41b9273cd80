"""Expand the texts of a configuration: paths relative to where they were written, variables and stores.

Nothing here touches the file system: results depend on the environment's mapping and the text's origin only.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from urllib.parse import urlsplit

from toolyard.core.errors import Misconfigured
from toolyard.core.settings.checks import KeyPath, check_characters
from toolyard.stores.postgres_settings import is_postgres

_VARIABLE = re.compile(r"(\$?)\$\{([^{}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ValueExpander:
    """The transformation of texts by their mark, with the origins and the environment that it needs."""

    get_base: Callable[[KeyPath], Path]
    is_from_file: Callable[[KeyPath], bool]
    environment: Mapping[str, str]

    def expand(self, mark: str, path: KeyPath, text: str) -> str:
        """Return the text in its final form. Raise ValueError with what is wrong with it."""
        match mark:
            case "secret" | "header":
                # A secret that comes from a variable or a flag is used as it is: it may contain "${" by chance.
                secret = self._expand_variables(text) if self.is_from_file(path) else text
                return check_characters(mark, path, secret)
            case "path":
                return self._expand_path(path, text)
            case "tools":
                return self._expand_path(path, text) if is_file(text) else text
            case "store":
                return self._expand_store(path, text)
            case _:
                return text

    def _expand_variables(self, text: str) -> str:
        def look_up(variable: re.Match[str]) -> str:
            escaped, name = variable.groups()
            if escaped:
                return variable[0][1:]
            if not _VARIABLE_NAME.fullmatch(name):
                raise ValueError("holds a ${…} that does not name a variable")
            if name not in self.environment:
                raise ValueError(f"needs the environment variable {name}, which is not set")
            return self.environment[name]

        return _VARIABLE.sub(look_up, text)

    def _expand_path(self, path: KeyPath, text: str) -> str:
        if text == "~" or text.startswith(("~/", "~\\")):
            if not (home := _get_home(self.environment)):
                raise ValueError("begins with ~, and HOME is not set")
            return str(Path(home, text[2:]))
        return str(self.get_base(path) / text)

    def _expand_store(self, path: KeyPath, text: str) -> str:
        if text == "memory:" or is_postgres(text):
            return text
        url = urlsplit(text)
        if not text.startswith("sqlite:///") or url.path.strip("/") in ("", ":memory:") or "#" in text:
            raise ValueError(
                "must be memory:, sqlite:///from/here.db, sqlite:////from/the/root.db or postgresql://user@host/database"
            )
        file = PurePath(self._expand_path(path, url.path[1:])).as_posix()
        return f"sqlite:///{file}{'?' * bool(url.query)}{url.query}"


def is_file(tools: str) -> bool:
    """Return whether an entry of `tools` names a file, not a module."""
    return tools.endswith(".py") or tools.startswith((".", "~")) or "/" in tools or "\\" in tools


def find_data_directory(environment: Mapping[str, str], platform: str) -> PurePath:
    """Return the user's data directory by the conventions of the platform (a value of `sys.platform`)."""
    if platform == "win32" and (local := environment.get("LOCALAPPDATA")):
        return PureWindowsPath(local, "toolyard")
    data_home = environment.get("XDG_DATA_HOME", "")
    if platform not in ("win32", "darwin") and data_home.startswith("/"):  # XDG says to ignore a relative path
        return PurePosixPath(data_home, "toolyard")
    home = _get_home(environment)
    if not home:
        raise Misconfigured("there is no home directory to keep data in: set HOME, or the store")
    if platform == "win32":
        return PureWindowsPath(home, "AppData", "Local", "toolyard")
    if platform == "darwin":
        return PurePosixPath(home, "Library", "Application Support", "toolyard")
    return PurePosixPath(home, ".local", "share", "toolyard")


def _get_home(environment: Mapping[str, str]) -> str:
    return environment.get("HOME") or environment.get("USERPROFILE") or ""
