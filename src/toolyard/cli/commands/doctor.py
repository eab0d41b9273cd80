"""`toolyard doctor`: check what is set up and what is missing, and print how to fix it. It changes nothing."""

import argparse
import asyncio
import importlib.util
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from traceback import format_exception_only
from typing import cast

import msgspec

from toolyard.app import open_store
from toolyard.cli.available_models import find_ollama_address, list_ollama_models
from toolyard.cli.commands import COMMANDS
from toolyard.cli.common import Commands, Setup, add_command, add_config_flags, load_setup
from toolyard.cli.model_check import ANSWER_TIMEOUT_S, check_model
from toolyard.cli.server_client import describe_replicas, find_owner_url
from toolyard.core.errors import Misconfigured, MissingTables, Refused, ToolyardError, install_command
from toolyard.core.masking import mask_addresses
from toolyard.core.settings.models.names import LOCAL_PREFIX, OFFLINE
from toolyard.core.settings.network.addresses import is_loopback
from toolyard.core.store import Key
from toolyard.core.tools.definition import Tool
from toolyard.models.resolver import ModelSettings
from toolyard.observability.telemetry import mask_secrets
from toolyard.server.address import ServerAddress, build_url, read_published_address
from toolyard.server.config import Config, OidcConfig, apply_rules, find_config_file, load_tool_module
from toolyard.server.wiring import build_model_settings, build_wiring, load_configured_servers, load_configured_tools
from toolyard.stores.postgres_settings import describe_store, is_postgres

EXAMPLES = """  toolyard doctor
  toolyard doctor --config shop/toolyard.toml

The exit code is 1 if something must be fixed before `toolyard serve` can work.
"""
MIN_PYTHON = (3, 11)
PACKAGES = ("litestar", "uvicorn", "httptools", "rich", "jwt", *(() if sys.platform == "win32" else ("uvloop",)))
MAX_CHECK_S = 30.0
ModuleCheck = tuple[str, bool, str]
"""A label of one word, whether the check passed, and a text."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `str()` of it is its line of output, with secrets masked."""

    ok: bool
    label: str
    text: str
    doubtful: bool = False
    """Something may be wrong, but the server can start."""

    def __str__(self) -> str:
        lines = str(mask_secrets(mask_addresses(self.text, every_parameter=True))).splitlines() or [""]
        more = "".join(f"\n             {line}" for line in lines[1:])
        return f"{'✗' if not self.ok else '!' if self.doubtful else '✓'} {self.label:<9} {lines[0]}{more}"


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "doctor", run, COMMANDS["doctor"], EXAMPLES)
    add_config_flags(parser, "host", "port", "model", "store", "tools")


def run(options: argparse.Namespace) -> int:
    findings = list(_check_basics(options))
    for finding in findings:
        print(finding)
    try:
        setup = load_setup(options)
    except Misconfigured:
        return 1
    return asyncio.run(_run_checks(setup, all(finding.ok for finding in findings)))


async def _run_checks(setup: Setup, ok: bool) -> int:
    doubtful = False
    async for finding in _check_setup(setup):
        print(finding, flush=True)
        ok, doubtful = ok and finding.ok, doubtful or finding.doubtful
    if not ok:
        print("Fix the lines marked with ✗.")
        return 1
    starts = "`toolyard serve` starts"
    print(f"{starts}; check the lines marked with !." if doubtful else f"All is well: {starts}.")
    return 0


def _check_basics(options: argparse.Namespace) -> Iterator[Finding]:
    """Yield the findings that need no valid configuration, and whether the configuration is valid."""
    python_version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        sys.version_info >= MIN_PYTHON,
        "python",
        f"{python_version}; Toolyard {version('toolyard')} needs 3.11 or newer",
    )
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    yield Finding(
        not missing,
        "packages",
        f"without {', '.join(missing)}: {install_command('server')}"
        if missing
        else "those of the server are installed",
    )
    try:
        load_setup(options)
        file = find_config_file(options.config)
        yield Finding(True, "config", str(file) if file else "no toolyard.toml here: the defaults are used")
    except Misconfigured as error:
        yield Finding(False, "config", str(error))


async def _check_setup(setup: Setup) -> AsyncIterator[Finding]:
    config = setup.config
    yield _check_tools(setup)
    async for label, is_well, text in check_tool_modules(setup):
        yield Finding(is_well, label, text)
    settings = build_model_settings(config, os.environ)
    for name in config.model_names or (OFFLINE,):
        yield await _check_model(name, settings)
    if not config.model_names and (models := await list_ollama_models(find_ollama_address(settings))):
        yield Finding(
            True, "ollama", f"runs here: `toolyard serve --model ollama:{models[0]}`; {len(models)} models in all"
        )
    server, keys, finding = await _check_store(config)
    yield finding
    for finding in _check_servers(config):
        yield finding
    yield _check_port(config, server)
    yield _check_callers(config, keys)
    if config.sessions.allow_http:
        text = "allow_http lets keys and sessions cross the network unencrypted: leave it out where others can listen"
        yield Finding(True, "sessions", text, doubtful=True)
    for finding in _check_approvals(setup, keys):
        yield finding
    if config.oidc:
        yield await _check_identity_provider(config.oidc)


def _check_tools(setup: Setup) -> Finding:
    try:
        tools = load_configured_tools(setup.config, setup.base)
        build_wiring(setup.config, setup.base)
    except ToolyardError as error:
        return Finding(False, "tools", str(error))
    if not tools:
        return Finding(True, "tools", "none yet; `toolyard serve` says how to add the first one")
    return Finding(True, "tools", f"{len(tools)}: {', '.join(tool.definition.name for tool in tools)}")


def _check_servers(config: Config) -> Iterator[Finding]:
    """Yield whether each server's command exists. Servers are not started: a running server shows whether they work."""
    try:
        servers = load_configured_servers(config, os.environ)
    except Misconfigured as error:
        yield Finding(False, "servers", str(error))
        return
    if servers and importlib.util.find_spec("mcp") is None:
        yield Finding(False, "servers", f"MCP servers need more packages: {install_command('mcp')}")
    for name, spec in servers.items():
        path = {**os.environ, **spec.env}.get("PATH")
        if spec.command and shutil.which(spec.command, path=path) is None:
            yield Finding(False, "servers", f"{name}: {spec.command} is not on the PATH; install it, or name its path")
        elif is_postgres(config.store) and (problem := spec.replica_problem):
            yield Finding(True, "servers", f"{name} is not started: {problem}", doubtful=True)
        elif spec.version_warning:
            yield Finding(True, "servers", f"{name} {spec.version_warning}", doubtful=True)
        else:
            yield Finding(True, "servers", f"{name}: {spec.url or ' '.join((spec.command, *spec.args))}")


async def _check_model(name: str, settings: ModelSettings) -> Finding:
    if name == OFFLINE:
        return Finding(True, "model", f"{OFFLINE}, which is not a language model: set `model` to connect a real one")
    try:
        if name.startswith(LOCAL_PREFIX):
            settings.make_model(name)
            return Finding(True, "model", f"{name}: it is loaded when it is first asked")
        endpoint = settings.find_endpoint(name)
    except Misconfigured as error:
        return Finding(False, "model", str(error))
    if endpoint.key_variable:
        return Finding(False, "model", f"{name} needs a key: set the environment variable {endpoint.key_variable}")
    check = await check_model(endpoint)
    return Finding(check.state != "wrong", "model", f"{name}: {check.text}", doubtful=check.state == "doubtful")


async def _check_store(config: Config) -> tuple[ServerAddress | None, list[Key] | None, Finding]:
    """Return the server that has the store open, or None; the store's keys, or None without access; the finding."""
    try:
        store = await open_store(config.store, config.postgres, may_migrate=False)
    except MissingTables as error:
        return None, [], Finding(True, "store", f"{error}, or let the server do so", doubtful=True)
    except Misconfigured as error:
        try:
            url = find_owner_url(config.store, error)
        except Misconfigured:
            return None, None, Finding(False, "store", str(error))
        address = read_published_address(config.store)
        return (
            address,
            None,
            Finding(True, "store", f"{config.store} is served at {url} by process {address and address.pid}"),
        )
    except ToolyardError as error:
        return None, None, Finding(False, "store", str(error))
    try:
        keys = list(await store.keys())
        replicas = await store.count_other_replicas()
    finally:
        await store.close()
    if config.store == "memory:":
        return None, keys, Finding(True, "store", "memory: everything is lost when the server stops")
    text = f"{describe_store(config.store)} can be written"
    return None, keys, Finding(True, "store", f"{text}; {describe_replicas(replicas)} it" if store.is_shared else text)


def _check_port(config: Config, server: ServerAddress | None) -> Finding:
    address = f"{config.host} port {config.port}"
    if server is not None and server.url == build_url(config.host, config.port):
        return Finding(True, "port", f"{address} is the server's own, process {server.pid}")
    try:
        socket.create_server(
            (config.host, config.port), family=socket.AF_INET6 if ":" in config.host else socket.AF_INET
        ).close()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        return Finding(False, "port", f"{address}: {reason}; choose another with --port or `port`")
    return Finding(True, "port", f"{address} is free")


def _check_approvals(setup: Setup, keys: list[Key] | None) -> Iterator[Finding]:
    """Yield the tools whose calls nobody could approve, as far as the configuration tells."""
    config = setup.config
    try:
        tools = {tool.definition.name: tool.definition for tool in load_configured_tools(config, setup.base)}
    except ToolyardError:
        return  # the check of the tools reports this
    # The rules for tools of MCP servers, which are not known here.
    tools |= {name: apply_rules(Tool(name=name), rules) for name, rules in config.tool.items() if name not in tools}
    has_callers = keys is None or bool(keys or config.keys or config.jwt or config.oidc)
    for tool in tools.values():
        if tool.enabled and (problem := _find_approval_problem(tool, has_callers)):
            yield Finding(True, "approval", f"{tool.name} {problem}", doubtful=True)


def _find_approval_problem(tool: Tool, has_callers: bool) -> str:
    """Return why nobody could approve a call of the tool; empty if somebody could."""
    if tool.approval == "other" and not has_callers:
        return 'asks somebody else (approval = "other"), and without keys or an identity provider nobody can decide'
    users = {entry for entry in tool.approvers if entry.startswith("user:")}
    if users and users.issuperset(tool.approvers) and len(users) < tool.approvals:
        names = ", ".join(sorted(users))
        return f"needs {tool.approvals} approvals, and only {len(users)} users may approve it: {names}"
    return ""


async def _check_identity_provider(config: OidcConfig) -> Finding:
    try:
        from toolyard.server.oidc import OidcProvider
    except ImportError as error:
        return Finding(False, "oidc", f"[oidc] needs more packages: {install_command('server')} ({error})")
    try:
        await OidcProvider(config, request_s=ANSWER_TIMEOUT_S).discover()
    except Refused as error:
        return Finding(True, "oidc", f"nobody can sign in at {config.issuer}: {error}", doubtful=True)
    return Finding(True, "oidc", f"{config.issuer} can be discovered")


def _check_callers(config: Config, keys: list[Key] | None) -> Finding:
    count = len(config.keys) + len(keys or ())
    if count or config.jwt or config.oidc:
        others = " and tokens" * bool(config.jwt) + " and people who sign in with OpenID Connect" * bool(config.oidc)
        return Finding(True, "callers", f"{count} keys{others}")
    if keys is None:
        return Finding(True, "callers", "the running server knows its keys: `toolyard keys list`")
    if is_loopback(config.host):
        return Finding(True, "callers", "no key: everybody on this machine, and nobody else")
    text = f"no key, and {config.host} can be reached by others: `toolyard keys add NAME --user USER --role admin`"
    return Finding(False, "callers", text)


async def check_tool_modules(setup: Setup) -> AsyncIterator[ModuleCheck]:
    """Yield the results of the coroutine function `doctor_checks()` of each module that has one."""
    for name in setup.config.tools:
        try:
            module = load_tool_module(name, setup.base)
        except Misconfigured:
            continue  # the doctor's own check of the tools reports this
        checks = cast("Callable[[], Awaitable[object]] | None", getattr(module, "doctor_checks", None))
        if checks is not None:
            for check in await _run_module_checks(checks, f"the doctor_checks of {Path(name).name}"):
                yield check


async def _run_module_checks(checks: Callable[[], Awaitable[object]], title: str) -> list[ModuleCheck]:
    try:
        async with asyncio.timeout(MAX_CHECK_S):
            return msgspec.convert(await checks(), list[ModuleCheck])
    except TimeoutError:
        return [("tools", False, f"{title} did not end within {MAX_CHECK_S:g} s")]
    except msgspec.ValidationError:
        return [("tools", False, f"{title} must return (label, is well, text) for each")]
    except Exception as error:  # code of the user may raise anything; each exception is a finding
        return [("tools", False, f"{title} failed: {format_exception_only(error)[-1].strip()}")]
