"""Which models can be used here and now, and why not the others. It asks no provider anything but an Ollama nearby."""

import importlib.util
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

from toolyard.app import LOCAL_PREFIX, OFFLINE
from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.model_names import is_pattern
from toolyard.models.providers import PROVIDERS
from toolyard.server.config import Config
from toolyard.server.wiring import resolve_model_endpoint

OLLAMA = "ollama"
OFFLINE_DESCRIPTION = "finds the tool that you mean and asks before it changes anything; no language model, no key"
ANSWER_TIMEOUT_S = 1.0
MAX_TAGS_BYTES = 1_000_000
MAX_MODELS = 100


class ModelAvailability(Struct, frozen=True):
    usable: bool
    name: str
    text: str


class _OllamaModel(Struct):
    name: str


class _OllamaTags(Struct):
    models: list[_OllamaModel] = []


async def list_available_models(config: Config, environment: Mapping[str, str]) -> AsyncIterator[ModelAvailability]:
    """Those of the configuration first, then what else there is."""
    running = await list_ollama_models(find_ollama_address(config, environment))
    for name in dict.fromkeys((*config.model_names, *config.models)):
        if is_pattern(name):
            yield _check_pattern(name, config, environment)
        else:
            yield _check_configured(name, config, environment, running)
    if OFFLINE not in (*config.model_names, *config.models):
        yield ModelAvailability(True, OFFLINE, OFFLINE_DESCRIPTION)
    yield _check_local()
    if running is None:
        said = f"no Ollama answers at {find_ollama_address(config, environment)}: start one with `ollama serve`"
        yield ModelAvailability(False, f"{OLLAMA}:…", said)
    elif not running:
        yield ModelAvailability(False, f"{OLLAMA}:…", "Ollama runs, but has no model: `ollama pull qwen3`")
    for name in running or ():
        yield ModelAvailability(True, f"{OLLAMA}:{name}", "in the Ollama of this machine: no key")
    for provider in PROVIDERS:
        if provider != OLLAMA:
            yield _check_provider(provider, config, environment)


async def list_ollama_models(address: str) -> list[str] | None:
    """The models that an Ollama has, or None if there is none that answers."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{address}/api/tags", allow_redirects=False) as answer,
        ):
            body = await answer.content.read(MAX_TAGS_BYTES)
            if answer.status != 200:
                return None
            return [model.name for model in msgspec.json.decode(body, type=_OllamaTags).models[:MAX_MODELS]]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None


def find_ollama_address(config: Config, environment: Mapping[str, str]) -> str:
    place = resolve_model_endpoint(f"{OLLAMA}:any", config, environment)
    return place.base_url.rstrip("/").removesuffix("/v1")


def _check_configured(
    name: str, config: Config, environment: Mapping[str, str], running: list[str] | None
) -> ModelAvailability:
    if name == OFFLINE:
        return ModelAvailability(True, name, f"configured; {OFFLINE_DESCRIPTION}")
    if name.startswith(LOCAL_PREFIX):
        return _check_file(name)
    if name.startswith(f"{OLLAMA}:") and not _is_pulled(name.removeprefix(f"{OLLAMA}:"), running or []):
        why = "no Ollama answers: start one with `ollama serve`" if running is None else "Ollama has no such model"
        return ModelAvailability(False, name, f"configured, but {why}")
    try:
        place = resolve_model_endpoint(name, config, environment)
    except Misconfigured as error:
        return ModelAvailability(False, name, str(error))
    if place.key_variable:
        return ModelAvailability(False, name, f"configured, but needs a key: set {place.key_variable}")
    return ModelAvailability(True, name, f"configured, at {place.base_url}")


def _is_pulled(name: str, running: list[str]) -> bool:
    """Whether an Ollama has it: `qwen3` is its `qwen3:latest`."""
    return name in running or f"{name}:latest" in running


def _check_file(name: str) -> ModelAvailability:
    local, path = _check_local(), name.removeprefix(LOCAL_PREFIX).partition("?")[0]
    if not local.usable:
        return ModelAvailability(False, name, local.text)
    there = Path(path).expanduser().is_file()
    return ModelAvailability(there, name, "configured" if there else f"configured, but there is no file {path}")


def _check_local() -> ModelAvailability:
    if importlib.util.find_spec("xllamacpp") is None:
        return ModelAvailability(False, f"{LOCAL_PREFIX}…", f"needs more packages: {install_command('local')}")
    return ModelAvailability(
        True, f"{LOCAL_PREFIX}/path/to/model.gguf", "any GGUF file, in this machine's memory: no key, no network"
    )


def _check_pattern(pattern: str, config: Config, environment: Mapping[str, str]) -> ModelAvailability:
    """Return whether models that fit a pattern can be used: its provider's key and address are what they need."""
    try:
        place = resolve_model_endpoint(pattern, config, environment)
    except Misconfigured as error:
        return ModelAvailability(False, pattern, str(error))
    if place.key_variable:
        return ModelAvailability(False, pattern, f"configured, but needs a key: set {place.key_variable}")
    return ModelAvailability(True, pattern, f"configured: any name that fits it, at {place.base_url}")


def _check_provider(provider: str, config: Config, environment: Mapping[str, str]) -> ModelAvailability:
    try:
        place = resolve_model_endpoint(f"{provider}:any", config, environment)
    except Misconfigured:
        return ModelAvailability(False, f"{provider}:…", f"set {PROVIDERS[provider].address_variable} to its address")
    if place.key_variable:
        return ModelAvailability(False, f"{provider}:…", f"set {place.key_variable}")
    return ModelAvailability(True, f"{provider}:…", f"any of its models, at {place.base_url}")
