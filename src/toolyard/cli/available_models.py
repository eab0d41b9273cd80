"""Find out which models can be used on this machine, and why others cannot. Of all providers only Ollama is asked."""

import importlib.util
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

from toolyard.core.errors import Misconfigured, install_command
from toolyard.core.settings.models.names import LOCAL_PREFIX, OFFLINE, is_pattern
from toolyard.models.providers import PROVIDERS
from toolyard.models.resolver import ModelSettings
from toolyard.server.config import Config
from toolyard.server.wiring import build_model_settings

OLLAMA = "ollama"
OFFLINE_DESCRIPTION = "finds the tool that you mean, and asks unless your order is clear; no language model, no key"
ANSWER_TIMEOUT_S = 1.0
MAX_TAGS_BYTES = 1_000_000
MAX_MODELS = 100


class ModelAvailability(Struct, frozen=True):
    """Whether a model, or each model of a pattern, can be used, with a text that explains it."""

    usable: bool
    name: str
    text: str


class _OllamaModel(Struct):
    name: str


class _OllamaTags(Struct):
    models: list[_OllamaModel] = []


async def list_available_models(config: Config, environment: Mapping[str, str]) -> AsyncIterator[ModelAvailability]:
    """Yield the configured models first, then the other models and providers that Toolyard knows."""
    settings = build_model_settings(config, environment)
    running = await list_ollama_models(find_ollama_address(settings))
    for name in dict.fromkeys((*config.model_names, *config.models)):
        if is_pattern(name):
            yield _check_endpoint(name, settings, "configured: any name that fits it")
        else:
            yield _check_configured(name, settings, running)
    if OFFLINE not in (*config.model_names, *config.models):
        yield ModelAvailability(True, OFFLINE, OFFLINE_DESCRIPTION)
    yield _check_local()
    if running is None:
        text = f"no Ollama answers at {find_ollama_address(settings)}: start one with `ollama serve`"
        yield ModelAvailability(False, f"{OLLAMA}:…", text)
    elif not running:
        yield ModelAvailability(False, f"{OLLAMA}:…", "Ollama runs, but has no model: `ollama pull qwen3`")
    for name in running or ():
        yield ModelAvailability(True, f"{OLLAMA}:{name}", "in the Ollama of this machine: no key")
    for provider in PROVIDERS:
        if provider != OLLAMA:
            yield _check_provider(provider, settings)


async def list_ollama_models(address: str) -> list[str] | None:
    """Return the models of the Ollama at this address, or None if none answers there."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{address}/api/tags", allow_redirects=False) as response,
        ):
            body = await response.content.read(MAX_TAGS_BYTES)
            if response.status != 200:
                return None
            return [model.name for model in msgspec.json.decode(body, type=_OllamaTags).models[:MAX_MODELS]]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None


def find_ollama_address(settings: ModelSettings) -> str:
    endpoint = settings.find_endpoint(f"{OLLAMA}:any")
    return endpoint.base_url.rstrip("/").removesuffix("/v1")


def _check_configured(name: str, settings: ModelSettings, running: list[str] | None) -> ModelAvailability:
    if name == OFFLINE:
        return ModelAvailability(True, name, f"configured; {OFFLINE_DESCRIPTION}")
    if name.startswith(LOCAL_PREFIX):
        return _check_file(name)
    if name.startswith(f"{OLLAMA}:") and not _is_pulled(name.removeprefix(f"{OLLAMA}:"), running or []):
        reason = "no Ollama answers: start one with `ollama serve`" if running is None else "Ollama has no such model"
        return ModelAvailability(False, name, f"configured, but {reason}")
    return _check_endpoint(name, settings, "configured")


def _check_endpoint(name: str, settings: ModelSettings, usable_text: str) -> ModelAvailability:
    """Return whether the provider of a name, or of a pattern of names, has an address and a key."""
    try:
        endpoint = settings.find_endpoint(name)
    except Misconfigured as error:
        return ModelAvailability(False, name, str(error))
    if endpoint.key_variable:
        return ModelAvailability(False, name, f"configured, but needs a key: set {endpoint.key_variable}")
    return ModelAvailability(True, name, f"{usable_text}, at {endpoint.base_url}")


def _is_pulled(name: str, running: list[str]) -> bool:
    """Return whether Ollama has the model: it lists `qwen3` as `qwen3:latest`."""
    return name in running or f"{name}:latest" in running


def _check_file(name: str) -> ModelAvailability:
    local, path = _check_local(), name.removeprefix(LOCAL_PREFIX).partition("?")[0]
    if not local.usable:
        return ModelAvailability(False, name, local.text)
    exists = Path(path).expanduser().is_file()
    return ModelAvailability(exists, name, "configured" if exists else f"configured, but there is no file {path}")


def _check_local() -> ModelAvailability:
    if importlib.util.find_spec("xllamacpp") is None:
        return ModelAvailability(False, f"{LOCAL_PREFIX}…", f"needs more packages: {install_command('local')}")
    return ModelAvailability(
        True, f"{LOCAL_PREFIX}/path/to/model.gguf", "any GGUF file, in this machine's memory: no key, no network"
    )


def _check_provider(provider: str, settings: ModelSettings) -> ModelAvailability:
    try:
        endpoint = settings.find_endpoint(f"{provider}:any")
    except Misconfigured:
        return ModelAvailability(False, f"{provider}:…", f"set {PROVIDERS[provider].address_variable} to its address")
    if endpoint.key_variable:
        return ModelAvailability(False, f"{provider}:…", f"set {endpoint.key_variable}")
    return ModelAvailability(True, f"{provider}:…", f"any of its models, at {endpoint.base_url}")
