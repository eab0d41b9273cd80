"""The `toolyard` command: its parser, and the exit codes. An error is printed as one line, without a traceback."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper

from toolyard.cli.common import UsageError
from toolyard.core.errors import ToolyardError

EPILOG = """start here:
  toolyard serve                                  start a server on http://127.0.0.1:8080; it prints the next steps
  toolyard chat --demo                            chat about a grocery list: needs no key and no network
  toolyard models                                 list the models that can be used on this machine
  toolyard doctor                                 check the set-up and print how to fix it

`toolyard COMMAND --help` explains each command with examples. All commands read toolyard.toml in the working directory,
or the file that --config names; TOOLYARD_… variables override the file, and flags override both.
"""

COMMANDS = (
    "serve", "chat", "tools", "servers", "models", "mcp", "keys", "access", "audit", "trace", "migrate",
    "migrate-store", "doctor",
)  # fmt: skip
"""Each is a module in `toolyard.cli.commands`. Only the one that runs is imported: all of them take half a second."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and exit with 0, with 1 for a failure, with 2 for wrong usage or with 130 for Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal's encoding may lack a character that we print
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        code = int(options.run(options) or 0)
    except UsageError as error:
        print(f"toolyard: {error}", file=sys.stderr)
        sys.exit(2)
    except ToolyardError as error:
        print(f"toolyard: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has closed the pipe
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:  # a bug of ours: one line as well, unless the user asks for the traceback
        if getattr(options, "verbose", False):
            raise
        print(f"toolyard: an unexpected {type(error).__name__}: {error} (--verbose shows where)", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options. Print the usage and exit with 2 if the words are not a valid command.

    The words after `--` of `servers add` are removed before parsing: argparse assigns them to the positional `command`
    only if no option stands between the server's name and `--`.
    """
    if tuple(words[:2]) != ("servers", "add") or "--" not in words:
        return build_parser(words[:1]).parse_args(words)
    dashes = words.index("--")
    options = build_parser(words[:1]).parse_args(words[:dashes])
    options.command = [*options.command, *words[dashes + 1 :]]
    return options


def build_parser(command: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of one command, or of all if the word is not the name of one."""
    parser = argparse.ArgumentParser(
        prog="toolyard",
        description="Run tools for a language model: checked, durable, streamed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"toolyard {version('toolyard')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in [name for name in command if name in COMMANDS] or COMMANDS:
        module = importlib.import_module(f"toolyard.cli.commands.{name.replace('-', '_')}")
        module.add_to(commands)
    return parser
