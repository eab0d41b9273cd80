"""`toolyard tools`: list the tools of the configuration, or call one of them without a model."""

import argparse
import asyncio
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import (
    Commands,
    add_caller_flags,
    add_command,
    add_config_flags,
    build_caller,
    load_setup,
)
from toolyard.cli.terminal import InputEnded, Interrupted, Terminal, format_table, sanitize
from toolyard.cli.usage import UsageError
from toolyard.core.caller import Caller
from toolyard.core.conversation.events import CallEnded, CallJudged, RunEnded
from toolyard.core.errors import Refused
from toolyard.core.tools.approval_terms import ApprovalTerms
from toolyard.core.tools.definition import Tool
from toolyard.engine.tools.registry import find_denial
from toolyard.models.scripted import Scripted
from toolyard.server.config import Config
from toolyard.server.wiring import build_wiring, load_configured_tools
from toolyard.venues.function import RunnableTool
from toolyard.yard import Yard

EXAMPLES = """  toolyard tools                                  list where each tool runs and who may use it
  toolyard tools --tools ./my_tools.py
  toolyard tools call add_to_groceries '{"item": "milk"}'
  toolyard tools call delete_order '{"number": 7}' --role admin --yes

The call passes the same checks and rules as a call of a model. Nothing is stored. The exit code is 1 if it failed.
"""


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "tools", run_list, COMMANDS["tools"], EXAMPLES)
    add_config_flags(parser, "tools")
    actions = parser.add_subparsers(metavar="ACTION")
    call = add_command(actions, "call", run_call, "call one tool and print its result", EXAMPLES)
    call.add_argument("name", help="the tool's name")
    call.add_argument("arguments", nargs="?", default="{}", help="the arguments as a JSON object; default: {}")
    add_caller_flags(call)
    call.add_argument("--yes", action="store_true", help="approve the call without a question")
    add_config_flags(call, "tools", default=argparse.SUPPRESS)


def run_list(options: argparse.Namespace) -> None:
    setup = load_setup(options)
    tools = load_configured_tools(setup.config, setup.base)
    if not tools:
        print('There are no tools: name modules or files with `tools = ["./my_tools.py"]` in toolyard.toml or --tools.')
        return
    print(
        format_table(
            ("name", "venue", "effect", "roles", "approval", "timeout", "what it does"),
            [_build_row(tool, _list_known_roles(setup.config, tools)) for tool in tools],
        )
    )


def _list_known_roles(config: Config, tools: Iterable[RunnableTool]) -> set[str]:
    """Return every role that the configuration or a tool names.

    Whether a tool's own check admits a role can only be found out by calling it, so each of these roles is tried.
    """
    keys = (role for key in config.keys for role in key.roles)
    return {"admin", "operator", "approver", *keys, *(role for tool in tools for role in tool.definition.roles)}


def _describe_callers(tool_source: RunnableTool, known_roles: Iterable[str]) -> str:
    tool = tool_source.definition
    if not tool.own_check:
        return " ".join(sorted(tool.roles)) or "everybody"
    authorize = tool_source.hooks().authorize
    admitted = [role for role in sorted(known_roles) if not find_denial(authorize, Caller(roles=frozenset({role})))]
    return " ".join([*(role for role in admitted if not tool.roles or role in tool.roles), "(its own check)"])


def _build_row(tool_source: RunnableTool, known_roles: Iterable[str]) -> tuple[str, ...]:
    tool, roles = tool_source.definition, _describe_callers(tool_source, known_roles)
    summary = tool.description.strip().partition("\n")[0]
    name = tool.name if tool.enabled else f"{tool.name} (disabled)"
    return (name, tool.venue, _describe_effect(tool), roles, tool.approval, f"{tool.timeout_s:g} s", summary)


def _describe_effect(tool: Tool) -> str:
    words = ["reads" if tool.read_only else "destroys" if tool.destructive else "changes"]
    return " ".join([*words, "outside"] if tool.open_world else words)


def run_call(options: argparse.Namespace) -> int:
    try:
        arguments = msgspec.json.decode(options.arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f'the arguments must be a JSON object, such as \'{{"item": "milk"}}\': {error}') from None
    return asyncio.run(_call_tool(options, arguments))


async def _call_tool(options: argparse.Namespace, arguments: dict[str, object]) -> int:
    setup, terminal = load_setup(options), Terminal()
    wiring = replace(build_wiring(setup.config, setup.base), store="memory:", model=Scripted([]))
    caller = build_caller(options)
    async with Yard.from_wiring(wiring) as yard:
        run, code = yard.call(options.name, arguments, caller=caller), 1
        async for event in run:
            match event:
                case CallJudged(verdict="ask", call_id=call_id, terms=terms):
                    _require_sole_decider(options.name, terms, caller)
                    is_approved = options.yes or _confirm(terminal, options.name)
                    reason = _ask_reason(terminal) if terms and terms.reason_required else ""
                    if is_approved:
                        await yard.approve(run.conversation, call_id, caller=caller, reason=reason)
                    else:
                        await yard.deny(run.conversation, call_id, reason, caller=caller)
                case CallEnded(result=result):
                    print(sanitize(result.content))
                    code = 0 if result.outcome == "ok" else 1
                case RunEnded(ending="failed", detail=detail):
                    print(sanitize(detail))
                case _:
                    pass
        return code


def _require_sole_decider(name: str, terms: ApprovalTerms | None, caller: Caller) -> None:
    """Raise Refused if the caller, who is alone here, cannot decide the call."""
    if terms is None:
        return
    if refusal := terms.find_refusal(caller, caller, caller):
        raise Refused(refusal)
    if terms.quorum > 1:
        raise Refused(f"{name} takes {terms.quorum} approvals of different people: {terms.describe_approvers()}")


def _ask_reason(terminal: Terminal) -> str:
    try:
        return terminal.ask("Why? ")
    except (InputEnded, Interrupted):
        return ""


def _confirm(terminal: Terminal, name: str) -> bool:
    try:
        return terminal.confirm(f"{name} asks first. Run it?")
    except (InputEnded, Interrupted):
        return False
