"""OpenAI's further options: each wire sends those that its provider has, and names the others."""

from collections.abc import Callable

import pytest

from toolyard.core.errors import Invalid
from toolyard.core.ports import Model, SelectiveModel
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Effort, Options, check_options
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_dashscope, strict_messages
from wire.local import open_model
from wire.option_wires import CHAT, DEEPSEEK, MESSAGES, RESPONSES, Body, Wire
from wire.strict import StrictServer
from wire.strict_chat import StrictChat, says
from wire.strict_gemini import strict_gemini as gemini_server
from wire.strict_responses import strict_responses

EXTRA: dict[str, object] = {
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "top_logprobs": 2,
    "prediction": {"type": "content", "content": "print(1)"},
    "prompt_cache_key": "shop",
    "verbosity": "low",
    "service_tier": "flex",
    "user": "ann",
    "safety_identifier": "a7",
    "metadata": {"shop": "1"},
}
NOTHING: frozenset[str] = frozenset()
PRIVATE = frozenset({"service_tier", "user", "safety_identifier", "metadata"})


def pick(*names: str) -> Body:
    return {name: EXTRA[name] for name in names}


PENALTIES = pick("frequency_penalty", "presence_penalty")
LOGPROBS = pick("logprobs", "top_logprobs")
PEOPLE = pick("user", "safety_identifier")


def chat(model: str = "m", provider: str = "openai") -> Callable[[str, frozenset[str]], Model]:
    return lambda url, forward: OpenAIChat(base_url=url, model=model, provider=provider, forward=forward)


def responses(model: str) -> Callable[[str, frozenset[str]], Model]:
    return lambda url, forward: OpenAIResponses(base_url=url, model=model, forward=forward)


def gemini(model: str) -> tuple[Callable[[], StrictServer], Callable[[str, frozenset[str]], Model]]:
    return (
        lambda: gemini_server(gemini_bytes.says("hi"), model=model),
        lambda url, forward: Gemini(base_url=url, model=model, forward=forward),
    )


def open_chat() -> StrictServer:
    return StrictChat(says("hi"))


def open_dashscope() -> StrictServer:
    return strict_dashscope.strict_dashscope(strict_dashscope.says("hi"))


def open_responses() -> StrictServer:
    return strict_responses(responses_bytes.says("hi"))


def open_messages() -> StrictServer:
    return strict_messages.StrictMessages(strict_messages.says("hi"))


def anthropic(url: str, forward: frozenset[str]) -> Model:
    return Anthropic(base_url=url, model="m", forward=forward)


@pytest.mark.parametrize(
    ("open_server", "open_wire", "forward", "expected"),
    [
        (
            open_chat,
            chat(),
            NOTHING,
            {**PENALTIES, **LOGPROBS, **pick("logit_bias", "prediction", "prompt_cache_key", "verbosity")},
        ),
        (open_chat, chat("gpt-5-mini"), PRIVATE, {**PEOPLE, **pick("prompt_cache_key", "verbosity", "service_tier")}),
        (
            open_chat,
            chat("gpt-4o-mini"),
            frozenset({"user"}),
            {**PENALTIES, **LOGPROBS, **pick("logit_bias", "prediction", "prompt_cache_key", "user")},
        ),
        (open_chat, chat("gpt-4o-mini", "deepseek"), PRIVATE, PENALTIES),
        (open_dashscope, chat("qwen-plus", "dashscope"), PRIVATE, PENALTIES),
        (open_chat, chat("llama", "groq"), PRIVATE, {**PENALTIES, **pick("user", "service_tier")}),
        (open_chat, chat("llama", "ollama"), PRIVATE, {**PENALTIES, **LOGPROBS}),
        (
            open_responses,
            responses("gpt-5-mini"),
            NOTHING,
            {"text": {"verbosity": "low"}, **pick("prompt_cache_key")},
        ),
        (
            open_responses,
            responses("gpt-4o-mini"),
            PRIVATE,
            {**PEOPLE, **pick("prompt_cache_key", "service_tier", "metadata")},
        ),
        (open_messages, anthropic, NOTHING, {}),
        (open_messages, anthropic, PRIVATE, {"metadata": {"user_id": "a7"}}),
        (*gemini("gemini-3-flash"), PRIVATE, {}),
        (
            *gemini("gemini-2.0-flash"),
            PRIVATE,
            {"generationConfig": {"frequencyPenalty": 0.5, "presencePenalty": -0.5}},
        ),
    ],
)
async def test_a_provider_receives_those_extra_options_that_it_has(
    open_server: Callable[[], StrictServer],
    open_wire: Callable[[str, frozenset[str]], Model],
    forward: frozenset[str],
    expected: Body,
) -> None:
    wire = Wire(open_server, lambda url: open_wire(url, forward))
    assert await wire.send(Options(extra=EXTRA)) == {**await wire.send(DEFAULT_OPTIONS), **expected}
    model = open_wire("http://127.0.0.1:1", forward)
    assert isinstance(model, SelectiveModel)
    names = {"frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty", "text": "verbosity"}
    sent = {names.get(name, name) for name in expected.get("generationConfig", expected)}
    if open_server is open_messages:
        sent = set[str](PEOPLE if expected else ())
    assert set(model.list_ignored(Options(extra=EXTRA))) == EXTRA.keys() - sent
    await model.close()


@pytest.mark.parametrize(("tier", "expected"), [("auto", "auto"), ("default", "standard_only"), ("flex", None)])
async def test_anthropic_receives_the_service_tiers_that_it_has(tier: str, expected: str | None) -> None:
    wire = Wire(open_messages, lambda url: anthropic(url, PRIVATE))
    assert (await wire.send(Options(extra={"service_tier": tier}))).get("service_tier") == expected
    async with open_model(anthropic("http://127.0.0.1:1", PRIVATE)) as model:
        assert isinstance(model, SelectiveModel)
        options = Options(temperature=0.2, extra={"service_tier": tier})
        assert model.list_ignored(options) == ["temperature", *([] if expected else ["service_tier"])]


@pytest.mark.parametrize(
    ("wire", "effort", "expected"),
    [
        (CHAT, "minimal", {"reasoning_effort": "minimal"}),
        (CHAT, "xhigh", {"reasoning_effort": "xhigh"}),
        (DEEPSEEK, "minimal", {"reasoning_effort": "low"}),
        (DEEPSEEK, "xhigh", {"reasoning_effort": "high"}),
        (RESPONSES, "minimal", {"reasoning": {"effort": "minimal", "summary": "auto"}}),
        (RESPONSES, "xhigh", {"reasoning": {"effort": "xhigh", "summary": "auto"}}),
        (MESSAGES, "minimal", {"thinking": {"type": "enabled", "budget_tokens": 2_048}}),
    ],
)
async def test_the_smallest_and_the_largest_effort_are_sent_where_a_provider_has_them(
    wire: Wire, effort: Effort, expected: Body
) -> None:
    assert (await wire.send(Options(thinking=effort))).items() >= expected.items()


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"voice": "alloy"}, "extra.voice is none of"),
        ({"user": "x" * 100_000}, "at most 100,000 bytes"),
        ({"metadata": {"a": object()}}, "must be JSON"),
    ],
)
def test_extra_options_are_bounded(extra: dict[str, object], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        check_options(Options(extra=extra))
