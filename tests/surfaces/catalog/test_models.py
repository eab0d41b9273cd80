"""`GET /models`: what a request may name as its model, what each can do, and what is missing for it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from surfaces.api_client import ApiClient, Json, connect_api_client
from toolyard import Yard
from toolyard.core.errors import Misconfigured
from toolyard.server.config import load
from toolyard.server.wiring import build_wiring
from wire.strict_lists import StrictModelList, openai_list

MODELS_TOML = """
model = ["openai:gpt-4o-mini", "ollama:qwen3"]
models = ["anthropic:claude-sonnet-4", "openai:gpt-4o*", "groq:*"]
[model_options."ollama:qwen3"]
window = 9000
"""


@pytest.fixture(autouse=True)
def only_an_openai_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GROQ_API_KEY", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # its list of models cannot be fetched
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")


@asynccontextmanager
async def open_configured(folder: Path, toml: str) -> AsyncGenerator[ApiClient, None]:
    """Open a client of a yard that is configured by a file."""
    file = folder / "toolyard.toml"
    file.write_text(f"store = 'memory:'\n{toml}")
    yard = Yard.from_wiring(build_wiring(load(file, {}, {}), folder))
    async with asyncio.timeout(30), yard, connect_api_client(yard) as http:
        yield http


async def list_models(http: ApiClient) -> dict[str, Json]:
    answer = await http.get("/models")
    return {model["id"]: model for model in answer["models"]}


async def test_the_configured_models_are_listed_with_what_they_can_do_and_what_is_missing(tmp_path: Path) -> None:
    async with open_configured(tmp_path, MODELS_TOML) as http:
        models = await list_models(http)
        assert list(models) == ["openai:gpt-4o-mini", "ollama:qwen3", "anthropic:claude-sonnet-4"]
        assert models["openai:gpt-4o-mini"] == {
            "id": "openai:gpt-4o-mini",
            "provider": "openai",
            "name": "gpt-4o-mini",
            "default": True,
            "context_tokens": 128_000,
            "input": ["text", "image", "file"],
            "native_tools": ["code_execution", "file_search", "web_search"],
            "available": True,
        }
        ollama, claude = models["ollama:qwen3"], models["anthropic:claude-sonnet-4"]
        assert (ollama["default"], ollama["context_tokens"], ollama["input"]) == (False, 9000, ["text"])
        assert (claude["available"], claude["reason"]) == (False, "needs ANTHROPIC_API_KEY")


@pytest.mark.parametrize("body", [{"model": "openai:gpt-5"}, {"model": "openai:gpt-4o/../x"}, {"model": "mistral"}])
async def test_a_model_that_is_not_listed_is_422_that_names_what_is_allowed(tmp_path: Path, body: Json) -> None:
    async with open_configured(tmp_path, MODELS_TOML) as http:
        conversation = await http.create_conversation()
        refused = await http.post(f"{conversation}/chat", {"content": "hi", **body}, expect=422)
        for name in ("openai:gpt-4o-mini", "ollama:qwen3", "anthropic:claude-sonnet-4", "openai:gpt-4o*", "groq:*"):
            assert name in refused["error"]
        await http.put(conversation, body, expect=422)


async def test_a_name_that_fits_a_pattern_may_be_used(tmp_path: Path) -> None:
    async with open_configured(tmp_path, MODELS_TOML) as http:
        changed = await http.put(await http.create_conversation(), {"model": "openai:gpt-4o-2024-08-06"})
        assert changed["success"]
        assert "openai:gpt-4o-2024-08-06" not in await list_models(http), "no list of the provider has it"


async def test_the_models_that_a_provider_lists_are_shown_once_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = StrictModelList("/v1/models", {"Authorization": "Bearer sk-secret"}, openai_list("gpt-4o-x", "o9"))
    async with provider.serving() as base_url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{base_url}/v1")
        async with open_configured(tmp_path, MODELS_TOML) as http:
            provider.hold()
            assert "openai:gpt-4o-x" not in await list_models(http), "the page waited for the provider"
            provider.release()
            while "openai:gpt-4o-x" not in (models := await list_models(http)):
                pass  # each answer lets the fetch go on
            assert "openai:o9" not in models and next(iter(models)) == "openai:gpt-4o-mini"
            assert models["openai:gpt-4o-x"]["available"] and not models["openai:gpt-4o-x"]["default"]
            assert (await http.get("/models"))["list_problems"] == {"groq": "needs GROQ_API_KEY"}
    assert provider.refusals == [] and len(provider.paths) == 1


async def test_a_list_that_cannot_be_fetched_is_shown_with_its_reason(tmp_path: Path) -> None:
    async with open_configured(tmp_path, MODELS_TOML) as http:
        while "openai" not in (problems := (await http.get("/models"))["list_problems"]):
            pass  # each answer lets the fetch go on
        assert problems["openai"] == "its list of models cannot be fetched (unavailable)"


@pytest.mark.parametrize(
    ("model", "variable"), [("anthropic:claude-sonnet-4", "ANTHROPIC_API_KEY"), ("groq:llama", "GROQ_API_KEY")]
)
async def test_a_model_whose_key_is_missing_is_422_that_says_so(tmp_path: Path, model: str, variable: str) -> None:
    async with open_configured(tmp_path, MODELS_TOML) as http:
        refused = await http.post(
            f"{await http.create_conversation()}/chat", {"content": "hi", "model": model}, expect=422
        )
        assert f"needs {variable}" in refused["error"]


async def test_without_a_model_the_planner_is_listed_and_what_to_set_for_others(tmp_path: Path) -> None:
    async with open_configured(tmp_path, "") as http:
        answer = await http.get("/models")
        (planner,) = answer["models"]
        assert (planner["id"], planner["default"], planner["available"]) == ("toolyard:offline", True, True)
        assert (planner["input"], planner["context_tokens"]) == (["text"], None)
        assert "ANTHROPIC_API_KEY" in answer["hint"] and "sk-secret" not in answer["hint"]


async def test_credentials_in_the_address_of_a_model_are_not_shown(tmp_path: Path) -> None:
    async with open_configured(tmp_path, 'models = ["http://ann:hunter2@127.0.0.1:9/v1#phi"]') as http:
        model = (await http.get("/models"))["models"][-1]
        assert (model["provider"], model["name"]) == ("127.0.0.1", "phi") and "hunter2" not in str(model)
        refused = await http.post(
            f"{await http.create_conversation()}/chat", {"content": "hi", "model": "other"}, expect=422
        )
        assert "phi" in refused["error"] and "hunter2" not in refused["error"]


@pytest.mark.parametrize("pattern", ["*", "o*:gpt", "http://127.0.0.1:9/*", "local:*", ":x*", "opnai:gpt*"])
async def test_a_pattern_that_would_open_other_places_than_one_provider_is_refused(
    tmp_path: Path, pattern: str
) -> None:
    with pytest.raises(Misconfigured, match="models"):
        async with open_configured(tmp_path, f'models = ["{pattern}"]'):
            pass
