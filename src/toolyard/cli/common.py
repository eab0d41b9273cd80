"""Shared parts of the commands: their flags, the configuration that they read, and times."""

import argparse
import getpass
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, get_args

from toolyard.cli.usage import UsageError
from toolyard.core.caller import Caller
from toolyard.core.store.audit_chain import Actor
from toolyard.observability.auditor import current_actor
from toolyard.observability.log_lines import configure_logging
from toolyard.server.config import Config, find_config_file, load_with_sources
from toolyard.server.config.layers import Layers

NOT_SETTINGS = ("TOOLYARD_KEY", "TOOLYARD_URL", "TOOLYARD_MODEL_KEY", "TOOLYARD_SECRET")
"""`TOOLYARD_…` variables that are not settings of the configuration."""
Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
Flag = Literal["model", "store", "tools", "host", "port"]
_FLAGS: dict[Flag, str] = {
    "host": "the address to listen on; default: 127.0.0.1; other machines can use the server only with a key",
    "port": "the port to listen on; default: 8080; 0 takes a free port and prints it",
    "model": "the model to use, such as toolyard:offline, openai:gpt-4o-mini, ollama:qwen3, local:/path.gguf or "
    "http://host/v1#model",
    "store": "where conversations and keys are stored: memory:, sqlite:///path/to/toolyard.db or "
    "postgresql://user@host/database; default: a file in the user's data directory",
    "tools": "modules or files that define tools, such as ./my_tools.py",
}
_DURATION = re.compile(r"(\d{1,6}(?:\.\d+)?)([smhd])")
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Commands(Protocol):
    """argparse's sub-commands, to which each command adds its parser."""

    def add_parser(
        self, name: str, *, help: str, description: str, epilog: str, formatter_class: type[argparse.HelpFormatter]
    ) -> argparse.ArgumentParser: ...


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration, where its settings come from, and the folder in which its tool modules are searched."""

    config: Config
    base: Path
    layers: Layers


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], about: str, examples: str
) -> argparse.ArgumentParser:
    """Add a command whose help is a sentence that says what it does, then examples. Return its parser."""
    parser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_config_flags(parser: argparse.ArgumentParser, *flags: Flag, default: str | None = None) -> None:
    """Add `--config`, these flags and the flags of the log.

    `default` is argparse.SUPPRESS for a sub-command whose parent has the same flags: the sub-command's defaults would
    overwrite the values that were given before its name.
    """
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=default,
        help="the configuration file; default: toolyard.toml in the working directory, if it exists",
    )
    for flag in flags:
        several = "+" if flag == "tools" else None
        parser.add_argument(f"--{flag}", nargs=several, metavar=flag.upper(), default=default, help=_FLAGS[flag])
    parser.add_argument("--log-level", choices=LEVELS, default=default, help="the least level to log on standard error")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default=default, help="the format of log lines; default: text"
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        default=default or False,
        help="the same as --log-level debug, and a traceback for an unexpected error",
    )


def add_server_flags(parser: argparse.ArgumentParser, *, url_is_free: bool = True, has_key: bool = True) -> None:
    """Add `--server` and `--key`; and `--url`, the earlier name of `--server`, unless it means something else.

    Without `has_key`, `--key` is left to the command, and the key comes from TOOLYARD_KEY.
    """
    default = os.environ.get("TOOLYARD_URL", "")
    parser.add_argument(
        "--server",
        dest="url",
        metavar="URL",
        default=default,
        help="the address of a running server to use; default: the variable TOOLYARD_URL",
    )
    if url_is_free:
        parser.add_argument("--url", dest="url", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    if not has_key:
        return
    parser.add_argument(
        "--key",
        default=os.environ.get("TOOLYARD_KEY", ""),
        help="the key to send to the server; default: the variable TOOLYARD_KEY",
    )


def add_caller_flags(parser: argparse.ArgumentParser) -> None:
    """Add `--user`, `--role` and `--division`: on whose behalf a command without a server calls tools."""
    parser.add_argument("--user", default="local", help="the user that calls belong to; default: local")
    parser.add_argument(
        "--role", action="append", default=[], dest="roles", help="a role of the user; may be repeated; default: admin"
    )
    parser.add_argument("--division", default="", help="the division of the user; default: none")


def build_caller(options: argparse.Namespace) -> Caller:
    """Return the caller that the flags of `add_caller_flags` name."""
    return Caller(user=options.user, roles=frozenset(options.roles or ["admin"]), division=options.division)


def act_as_this_user() -> None:
    """Let the audit log name the user of the operating system for what this command changes in a store."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may have a user without a name
        user = str(os.getuid()) if hasattr(os, "getuid") else ""
    current_actor.set(Actor(user=user, key="command line"))


def load_setup(options: argparse.Namespace, default_level: Level = "error") -> Setup:
    """Load the configuration from the file, the environment and the flags, and configure the log. Raise Misconfigured.

    `default_level` holds if nothing sets the level of the log: commands for a terminal print failures themselves.
    """
    flags: dict[str, object] = {name: getattr(options, name, None) for name in _FLAGS}
    flags["log.level"] = options.log_level or ("debug" if options.verbose else None)
    flags["log.format"] = options.log_format
    file = find_config_file(options.config)
    config, layers = load_with_sources(options.config, read_environment(), flags)
    # Lines show neither threads nor processes, whose names take longer to find than the rest of a record.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    configure_logging(config.log.level or default_level, config.log.format, config.redact)
    return Setup(config, file.parent if file else Path.cwd(), layers)


def read_environment() -> Mapping[str, str]:
    """Return the environment without the `TOOLYARD_…` variables that are not settings."""
    return {name: value for name, value in os.environ.items() if name not in NOT_SETTINGS}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 30m, 24h or 7d. Raise UsageError for any other text."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text[:40]!r} is not a duration: write 90s, 30m, 24h or 7d")
    return float(match[1]) * _UNIT_SECONDS[match[2]]


def parse_time(text: str, *, is_past: bool = False) -> float:
    """Return the time that a text names; 0 for an empty one. Raise UsageError.

    It is a date, or a duration: from now on, or with `is_past` before now.
    """
    if not text:
        return 0.0
    if _DURATION.fullmatch(text.strip()):
        return time.time() + parse_duration(text) * (-1 if is_past else 1)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):  # a year that the clock of this machine does not have
        raise UsageError(f"{text[:40]!r} is not a time: write 2027-01-31, 2027-01-31T12:00 or 30d") from None


def format_time(at: float, never: str = "") -> str:
    """Return a time to the minute, or `never` for 0."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M") if at else never
