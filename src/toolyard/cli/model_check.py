"""Check a configured model: whether its provider answers, accepts the key, and lists the model."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import aiohttp
import msgspec

from toolyard.models.resolver import ModelEndpoint

ANSWER_TIMEOUT_S = 3.0
MAX_LIST_BYTES = 4_000_000
MAX_SUGGESTIONS = 3
LATEST = ":latest"
"""Ollama's tag for a name without one."""


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The result of a check, with a text that explains it."""

    state: Literal["well", "doubtful", "wrong"]
    text: str


class _ListedModel(msgspec.Struct):
    id: str = ""
    name: str = ""


class _ListedModels(msgspec.Struct):
    """OpenAI's, Anthropic's and Ollama's lists are `data` with ids, Gemini's is `models` with names."""

    data: list[_ListedModel] = []
    models: list[_ListedModel] = []


async def check_model(endpoint: ModelEndpoint) -> ModelCheck:
    """Request the provider's list of models, and return what it says about this model."""
    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
    base = endpoint.base_url.rstrip("/")
    try:
        async with aiohttp.ClientSession(timeout=timeout, trust_env=True, headers=_build_headers(endpoint)) as session:
            status, body = await _get(session, f"{base}/models")
            if status == 404:
                return await _check_address(session, base)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        reason = str(error) or f"no answer within {ANSWER_TIMEOUT_S:g} s"
        return ModelCheck("wrong", f"{endpoint.base_url} cannot be reached: {reason}; is it up, is it allowed?")
    if status in (401, 403):
        return ModelCheck("wrong", f"{endpoint.base_url} refuses the key ({status}); renew it")
    if status >= 500:
        return ModelCheck("wrong", f"{endpoint.base_url} answers ({status})")
    if status != 200:
        return ModelCheck("doubtful", f"{endpoint.base_url} answers {status} instead of its list of models")
    return _check_name(endpoint, body)


async def _check_address(session: aiohttp.ClientSession, base: str) -> ModelCheck:
    """Return what to do about an address that has no list of models."""
    if not base.endswith("/v1"):
        status, _ = await _get(session, f"{base}/v1/models")
        if status != 404:
            return ModelCheck("wrong", f"there is no API at {base} (404), but there is one at {base}/v1: use that")
        return ModelCheck("doubtful", f"{base} has no list of models (404); is the address right? Most end in /v1")
    return ModelCheck("doubtful", f"{base} has no list of models (404); is the address right?")


def _check_name(endpoint: ModelEndpoint, body: bytes) -> ModelCheck:
    try:
        models = msgspec.json.decode(body, type=_ListedModels)
    except (msgspec.DecodeError, UnicodeError):
        return ModelCheck(
            "doubtful", f"the response from {endpoint.base_url} is not a list of models; check the address"
        )
    names = {model.id or model.name.removeprefix("models/") for model in (*models.data, *models.models)} - {""}
    model_name = endpoint.model.removeprefix("models/")
    if not names or model_name in names or f"{model_name}{LATEST}" in names:
        return ModelCheck("well", f"{endpoint.base_url} answers" + (" and has the model" if names else " (200)"))
    near = difflib.get_close_matches(model_name, sorted(names), n=MAX_SUGGESTIONS, cutoff=0.5) or sorted(names)
    hint = ", ".join(near[:MAX_SUGGESTIONS])
    return ModelCheck("doubtful", f"{endpoint.base_url} does not list the model {model_name!r}; it has {hint}")


def _build_headers(endpoint: ModelEndpoint) -> dict[str, str]:
    header = endpoint.preset.key_header
    key: Mapping[str, str] = {header: endpoint.api_key} if header else {"authorization": f"Bearer {endpoint.api_key}"}
    version = {"anthropic-version": "2023-06-01"} if endpoint.preset.wire == "messages" else {}
    return {**version, **(key if endpoint.api_key else {}), **endpoint.headers}


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, bytes]:
    async with session.get(url, allow_redirects=False) as response:
        body = bytearray()
        async for piece in response.content.iter_chunked(65536):
            body += piece
            if len(body) > MAX_LIST_BYTES:
                raise ValueError(f"its list of models is longer than {MAX_LIST_BYTES} bytes")
        return response.status, bytes(body)
