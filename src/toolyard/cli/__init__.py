"""The `toolyard` command: its parser, and the exit codes. An error is printed as one line, without a traceback."""

import argparse
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from io import TextIOWrapper

from toolyard.cli.commands import COMMANDS
from toolyard.cli.secret_files import read_secret_files
from toolyard.cli.usage import SuggestingParser, UsageError
from toolyard.core.errors import ToolyardError

EPILOG = """start here:
  toolyard serve                                  start a server on http://127.0.0.1:8080; it prints the next steps
  toolyard chat --demo                            chat about a grocery list: needs no key and no network
  toolyard models                                 list the models that can be used on this machine
  toolyard doctor                                 check the set-up and print how to fix it

`toolyard COMMAND --help` explains each command with examples. All commands read toolyard.toml in the working directory,
or the file that --config names; TOOLYARD_… variables override the file, and flags override both.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command, and exit with 0, with 1 for a failure, with 2 for wrong usage or with 130 for Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # the terminal's encoding may lack a character that we print
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        read_secret_files(os.environ)
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
    parser = build_parser([word for word in words if not word.startswith("-")][:1])
    if tuple(words[:2]) != ("servers", "add") or "--" not in words:
        return parser.parse_args(words)
    dashes = words.index("--")
    options = parser.parse_args(words[:dashes])
    options.command = [*options.command, *words[dashes + 1 :]]
    return options


def build_parser(loaded: Collection[str] = tuple(COMMANDS)) -> SuggestingParser:
    """Return the parser of all commands. Those that are not in `loaded` have a name and a description only."""
    parser = SuggestingParser(
        prog="toolyard",
        description="Run tools for a language model: checked, durable, streamed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="show the version and the commit, and exit")

    def print_help(_: argparse.Namespace) -> None:
        parser.print_help()

    parser.set_defaults(run=print_help)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, about in COMMANDS.items():
        if name in loaded:
            importlib.import_module(f"toolyard.cli.commands.{name.replace('-', '_')}").add_to(commands)
        else:
            commands.add_parser(name, help=about)
    return parser


class _PrintVersion(argparse.Action):
    """Print the version and exit. argparse's own action would have to know it before it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from toolyard.cli.version import describe_version

        print(describe_version())
        parser.exit()
