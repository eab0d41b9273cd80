"""Which models can be used here and now, and why not the others. It asks no provider anything but an Ollama nearby."""

import importlib.util
from collections.abc import AsyncIterator, Mapping

import aiohttp
import msgspec
from msgspec import Struct

from toolyard.app import LOCAL
from toolyard.configured import DEMO, model_place
from toolyard.core.errors import Misconfigured
from toolyard.models.providers import PROVIDERS
from toolyard.settings import Config

OLLAMA = "ollama"
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
    for name in config.models:
        yield _configured(name, config, environment)
    yield Available(True, DEMO, "a script: no key, no network")
    yield _local()
    running = await ollama_models(ollama_address(config, environment))
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


def _configured(name: str, config: Config, environment: Mapping[str, str]) -> Available:
    if name == DEMO:
        return Available(True, name, "configured; a script")
    if name.startswith(LOCAL):
        local = _local()
        return Available(local.usable, name, "configured" if local.usable else local.said)
    try:
        place = model_place(name, config, environment)
    except Misconfigured as error:
        return Available(False, name, str(error))
    if place.key_variable:
        return Available(False, name, f"configured, but needs a key: set {place.key_variable}")
    return Available(True, name, f"configured, at {place.base_url}")


def _local() -> Available:
    if importlib.util.find_spec("xllamacpp") is None:
        return Available(False, f"{LOCAL}…", "needs more packages: pip install 'toolyard[local]'")
    return Available(True, f"{LOCAL}/path/to/model.gguf", "any GGUF file, in this machine's memory: no key, no network")


def _provider(provider: str, config: Config, environment: Mapping[str, str]) -> Available:
    place = model_place(f"{provider}:any", config, environment)
    if place.key_variable:
        return Available(False, f"{provider}:…", f"set {place.key_variable}")
    return Available(True, f"{provider}:…", f"any of its models, at {place.base_url}")
