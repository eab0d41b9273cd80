"""What the commands share: flags, the configuration they read, and a way to say that they were used wrongly."""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

from toolyard.core.errors import ToolyardError
from toolyard.observability.log_lines import configure_logging
from toolyard.server.config import Config, find_config_file, load

NOT_SETTINGS = ("TOOLYARD_KEY", "TOOLYARD_URL", "TOOLYARD_MODEL_KEY")
"""Variables of ours that are no settings of a server."""
Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
Flag = Literal["model", "store", "tools", "host", "port"]
_FLAGS: dict[Flag, str] = {
    "host": "default: 127.0.0.1; any other needs a key",
    "port": "default: 8080; 0 takes a free one and prints it",
    "model": "such as toolyard:offline, openai:gpt-4o-mini, ollama:qwen3, local:/path.gguf, http://host/v1#model",
    "store": "memory: or sqlite:///path/to/toolyard.db; default: in the user's data directory",
    "tools": "modules or files with tools, such as ./my_tools.py",
}


class Commands(Protocol):
    """Where a command adds itself."""

    def add_parser(
        self, name: str, *, help: str, description: str, epilog: str, formatter_class: type[argparse.HelpFormatter]
    ) -> argparse.ArgumentParser: ...


class UsageError(ToolyardError):
    """The command was given something that it cannot make sense of: exit code 2."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration, and the folder that its modules are looked for in."""

    config: Config
    base: Path


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int | None], about: str, examples: str
) -> argparse.ArgumentParser:
    """A command with its help: what it does in a sentence, then examples."""
    made = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(run=run)
    return made


def add_config_flags(parser: argparse.ArgumentParser, *flags: Flag, default: str | None = None) -> None:
    """`default` is argparse.SUPPRESS where a command within a command has the same flags once more."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", default=default, help="default: toolyard.toml here, if there is one"
    )
    for flag in flags:
        several = "+" if flag == "tools" else None
        parser.add_argument(f"--{flag}", nargs=several, metavar=flag.upper(), default=default, help=_FLAGS[flag])
    parser.add_argument("--log-level", choices=LEVELS, default=default, help="of the lines on standard error")
    parser.add_argument("--log-format", choices=("text", "json"), default=default, help="default: text")
    parser.add_argument("--verbose", action="store_true", default=default or False, help="as --log-level debug")


def add_server_flags(parser: argparse.ArgumentParser, *, url_is_free: bool = True) -> None:
    """Add `--server` and `--key`; and `--url`, the flag's earlier name, where it means nothing else."""
    default = os.environ.get("TOOLYARD_URL", "")
    parser.add_argument(
        "--server", dest="url", metavar="URL", default=default, help="a running server (or TOOLYARD_URL)"
    )
    if url_is_free:
        parser.add_argument("--url", dest="url", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    parser.add_argument(
        "--key", default=os.environ.get("TOOLYARD_KEY", ""), help="the key to come in with (or TOOLYARD_KEY)"
    )


def load_setup(options: argparse.Namespace, default_level: Level = "error") -> Setup:
    """The configuration that the flags, the environment and the file come to. Raises Misconfigured.

    `default_level` is that of the log where nothing sets it: commands for a terminal tell failures in their own words.
    """
    flags: dict[str, object] = {name: getattr(options, name, None) for name in _FLAGS}
    flags["log.level"] = options.log_level or ("debug" if options.verbose else None)
    flags["log.format"] = options.log_format
    file = find_config_file(options.config)
    config = load(options.config, read_environment(), flags)
    configure_logging(config.log.level or default_level, config.log.format)
    return Setup(config, file.parent if file else Path.cwd())


def read_environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name not in NOT_SETTINGS}
