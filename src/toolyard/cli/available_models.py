"""Which models can be used here and now, and why not the others. It asks no provider anything but an Ollama nearby."""

import importlib.util
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

from toolyard.app import LOCAL, OFFLINE
from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.model_names import is_pattern
from toolyard.models.providers import PROVIDERS
from toolyard.server.config import Config
from toolyard.server.wiring import model_place

OLLAMA = "ollama"
PLANNER = "finds the tool that you mean and asks before it changes anything; no language model, no key"
ANSWER_S = 1.0
MOST_BYTES = 1_000_000
MOST_MODELS = 100


class Available(Struct, frozen=True):
    usable: bool
    name: str
    said: str


class _Model(Struct):
    name: str


class _Tags(Struct):
    models: list[_Model] = []


async def available(config: Config, environment: Mapping[str, str]) -> AsyncIterator[Available]:
    """Those of the configuration first, then what else there is."""
    running = await ollama_models(ollama_address(config, environment))
    for name in dict.fromkeys((*config.model_names, *config.models)):
        if is_pattern(name):
            yield _pattern(name, config, environment)
        else:
            yield _configured(name, config, environment, running)
    if OFFLINE not in (*config.model_names, *config.models):
        yield Available(True, OFFLINE, PLANNER)
    yield _local()
    if running is None:
        said = f"no Ollama answers at {ollama_address(config, environment)}: start one with `ollama serve`"
        yield Available(False, f"{OLLAMA}:…", said)
    elif not running:
        yield Available(False, f"{OLLAMA}:…", "Ollama runs, but has no model: `ollama pull qwen3`")
    for name in running or ():
        yield Available(True, f"{OLLAMA}:{name}", "in the Ollama of this machine: no key")
    for provider in PROVIDERS:
        if provider != OLLAMA:
            yield _provider(provider, config, environment)


async def ollama_models(address: str) -> list[str] | None:
    """The models that an Ollama has, or None if there is none that answers."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{address}/api/tags", allow_redirects=False) as answer,
        ):
            body = await answer.content.read(MOST_BYTES)
            if answer.status != 200:
                return None
            return [model.name for model in msgspec.json.decode(body, type=_Tags).models[:MOST_MODELS]]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None


def ollama_address(config: Config, environment: Mapping[str, str]) -> str:
    place = model_place(f"{OLLAMA}:any", config, environment)
    return place.base_url.rstrip("/").removesuffix("/v1")


def _configured(name: str, config: Config, environment: Mapping[str, str], running: list[str] | None) -> Available:
    if name == OFFLINE:
        return Available(True, name, f"configured; {PLANNER}")
    if name.startswith(LOCAL):
        return _file(name)
    if name.startswith(f"{OLLAMA}:") and not _pulled(name.removeprefix(f"{OLLAMA}:"), running or []):
        why = "no Ollama answers: start one with `ollama serve`" if running is None else "Ollama has no such model"
        return Available(False, name, f"configured, but {why}")
    try:
        place = model_place(name, config, environment)
    except Misconfigured as error:
        return Available(False, name, str(error))
    if place.key_variable:
        return Available(False, name, f"configured, but needs a key: set {place.key_variable}")
    return Available(True, name, f"configured, at {place.base_url}")


def _pulled(name: str, running: list[str]) -> bool:
    """Whether an Ollama has it: `qwen3` is its `qwen3:latest`."""
    return name in running or f"{name}:latest" in running


def _file(name: str) -> Available:
    local, path = _local(), name.removeprefix(LOCAL).partition("?")[0]
    if not local.usable:
        return Available(False, name, local.said)
    there = Path(path).expanduser().is_file()
    return Available(there, name, "configured" if there else f"configured, but there is no file {path}")


def _local() -> Available:
    if importlib.util.find_spec("xllamacpp") is None:
        return Available(False, f"{LOCAL}…", f"needs more packages: {install_command('local')}")
    return Available(True, f"{LOCAL}/path/to/model.gguf", "any GGUF file, in this machine's memory: no key, no network")


def _pattern(pattern: str, config: Config, environment: Mapping[str, str]) -> Available:
    """Return whether models that fit a pattern can be used: its provider's key and address are what they need."""
    try:
        place = model_place(pattern, config, environment)
    except Misconfigured as error:
        return Available(False, pattern, str(error))
    if place.key_variable:
        return Available(False, pattern, f"configured, but needs a key: set {place.key_variable}")
    return Available(True, pattern, f"configured: any name that fits it, at {place.base_url}")


def _provider(provider: str, config: Config, environment: Mapping[str, str]) -> Available:
    try:
        place = model_place(f"{provider}:any", config, environment)
    except Misconfigured:
        return Available(False, f"{provider}:…", f"set {PROVIDERS[provider].address_variable} to its address")
    if place.key_variable:
        return Available(False, f"{provider}:…", f"set {place.key_variable}")
    return Available(True, f"{provider}:…", f"any of its models, at {place.base_url}")
