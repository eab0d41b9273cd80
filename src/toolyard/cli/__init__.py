"""The `toolyard` command: its words, and which file carries each out. Errors are told in a line, never a traceback."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper

from toolyard.cli.commands import chat, doctor, keys, mcp, models, serve, servers, tools, trace
from toolyard.cli.common import UsageError
from toolyard.core.errors import ToolyardError

EPILOG = """start here:
  toolyard serve                                  a server on http://127.0.0.1:8080; it says how to go on
  toolyard chat --demo                            a grocery list in the terminal: no key, no network
  toolyard models                                 the models that can be used here
  toolyard doctor                                 what is set up, and what is missing

`toolyard COMMAND --help` explains each command with examples. All of them read toolyard.toml of the working directory,
or the file named with --config; TOOLYARD_… variables override it, and flags override both.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign shows another
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
    except BrokenPipeError:  # whoever read our output has left
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:  # a fault of ours: told as shortly, unless more is wanted
        if getattr(options, "verbose", False):
            raise
        print(f"toolyard: an unexpected {type(error).__name__}: {error} (--verbose shows where)", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return what the words ask for. Exits with 2, and usage, if they make no sense.

    Argparse takes the words after `--` for the command of `servers add` only if no option stands between the name and
    them, so that they are set aside first.
    """
    if tuple(words[:2]) != ("servers", "add") or "--" not in words:
        return build_parser().parse_args(words)
    dashes = words.index("--")
    options = build_parser().parse_args(words[:dashes])
    options.command = [*options.command, *words[dashes + 1 :]]
    return options


def build_parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="toolyard",
        description="Run tools for a language model: checked, durable, streamed.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"toolyard {version('toolyard')}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for one in (serve, chat, tools, servers, models, mcp, keys, trace, doctor):
        one.add_to(commands)
    return made
