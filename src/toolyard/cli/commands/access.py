"""`toolyard access`: explain which rule lets the owner of a key use a tool, or keeps it from them."""

import argparse
import asyncio
import os
from dataclasses import replace
from urllib.parse import urlencode

import msgspec

from toolyard.cli.commands import COMMANDS
from toolyard.cli.commands.keys import hint_at_key_names, open_access
from toolyard.cli.common import Commands, add_command, add_config_flags, add_server_flags, load_setup
from toolyard.cli.server_client import open_server_or_store
from toolyard.cli.terminal import format_table, sanitize
from toolyard.cli.usage import UsageError
from toolyard.client.http import ServerClient
from toolyard.engine.access.authentication import LOCAL_ADMIN
from toolyard.engine.access.explanation import AccessExplanation
from toolyard.models.scripted import Scripted
from toolyard.server.wiring import build_wiring
from toolyard.yard import Yard

EXAMPLES = """  toolyard access explain --key ann --tool pay     which rule decides when ann calls pay, and why
  toolyard access explain --tool pay               the same for the owner of TOOLYARD_KEY

--key is the name of a key, as `toolyard keys list` shows it. A running server is asked with the key of an administrator
in TOOLYARD_KEY; if none runs, the keys are read from the store. Nothing is called.
"""


class _AccessAnswer(msgspec.Struct):
    access: AccessExplanation


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "access", _require_action, COMMANDS["access"], EXAMPLES)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    explain = add_command(actions, "explain", run_explain, "explain which rule decides about a tool", EXAMPLES)
    add_config_flags(explain, "store", "tools")
    add_server_flags(explain, has_key=False)
    explain.add_argument("--key", default="", metavar="NAME", help="the name of the key; default: that of TOOLYARD_KEY")
    explain.add_argument("--tool", required=True, dest="tool_name", metavar="TOOL", help="the name of the tool")


def _require_action(options: argparse.Namespace) -> None:
    raise UsageError("name an action: toolyard access explain")


def run_explain(options: argparse.Namespace) -> None:
    explanation = asyncio.run(_explain(options))
    print(sanitize(render_explanation(explanation)))


async def _explain(options: argparse.Namespace) -> AccessExplanation:
    setup = load_setup(options)
    own_key = os.environ.get("TOOLYARD_KEY", "")
    async with open_server_or_store(setup.config, options.url, own_key, if_missing="empty") as target:
        if isinstance(target, ServerClient):
            query = urlencode({"tool": options.tool_name, **({"key": options.key} if options.key else {})})
            with hint_at_key_names():
                return (await target.request("GET", f"/access?{query}", _AccessAnswer)).access
        caller = LOCAL_ADMIN
        if options.key and (key_caller := (await open_access(setup.config, target)).find_caller(options.key)):
            caller = key_caller
        elif options.key:
            raise UsageError(f"there is no key named {options.key!r}; `toolyard keys list` shows the names")
    wiring = replace(build_wiring(setup.config, setup.base), store="memory:", model=Scripted([]))
    async with Yard.from_wiring(wiring) as yard:
        return yard.service.tools.explain_access(caller, options.tool_name)


def render_explanation(access: AccessExplanation) -> str:
    """Return the explanation as text: the decision, then each rule that was asked."""
    verb = {"allow": "may use", "ask": "may ask for", "deny": "may not use"}[access.decision]
    lines = [f"{access.user} {verb} {access.tool}: {access.reason} (rule: {access.rule})"]
    if access.approval is not None:
        need = access.approval
        lines.append(
            f"Each call takes {need.needed} approval{'s' if need.needed > 1 else ''} by {need.approvers}"
            f"{', with a reason' if need.reason_required else ''}, within {need.approval_s:g} s."
        )
    if access.after_untrusted != "allow" and access.decision != "deny":
        lines.append(f"After untrusted content: {access.after_untrusted}.")
    rows = [(check.rule, check.decision or "no objection", check.reason or "-") for check in access.checks]
    return "\n".join([*lines, "", format_table(("rule", "says", "because"), rows)])
