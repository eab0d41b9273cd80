"""A server whose file sets no model, so that its models come from the store."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from surfaces.api_client import ApiClient, open_api_client
from toolyard.models.resolver import ModelSettings

PROVIDER = "/settings/providers/shop"
MODEL = "/settings/general/model"
WIRING: dict[str, Any] = {
    "allowed_models": frozenset({"toolyard:offline"}),
    "configured_settings": {},
    "model_settings": ModelSettings(environment={"OPENAI_API_KEY": "key-of-the-environment"}),
}


@asynccontextmanager
async def open_unconfigured(**wiring: Any) -> AsyncGenerator[ApiClient]:
    """Open a client of such a server."""
    async with open_api_client("toolyard:offline", **{**WIRING, **wiring}) as http:
        yield http


async def chat(http: ApiClient, **settings: Any) -> str:
    """Return the answer to a message in a new conversation with these settings."""
    conversation = await http.create_conversation(**settings)
    return (await http.post(f"{conversation}/chat", {"content": "hi"}))["assistant_message"]["content"]
