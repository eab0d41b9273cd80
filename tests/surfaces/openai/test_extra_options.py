"""Further options of a request reach the provider; what is not sent is named in a header."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from openai import BadRequestError

from surfaces.api_client import Json
from surfaces.openai.clients import HELLO, Served, add_to_groceries, join_content, serve_model, serve_script
from toolyard.models.chat import OpenAIChat
from toolyard.models.fallback import FallbackModel
from toolyard.models.messages import Anthropic
from toolyard.testing import say
from wire import strict_messages
from wire.strict_chat import StrictChat, asks, says, says_with_logprobs

IGNORED = "toolyard-ignored"
FIELDS: Json = {
    "frequency_penalty": 0.5,
    "presence_penalty": 0.25,
    "logit_bias": {"50256": -100},
    "prompt_cache_key": "shop",
    "verbosity": "low",
    "prediction": {"type": "content", "content": "x"},
    "reasoning_effort": "minimal",
}
PRIVATE: Json = {
    "service_tier": "flex",
    "user": "ann",
    "safety_identifier": "a7",
    "metadata": {"shop": "1"},
}


@asynccontextmanager
async def serve_chat(
    model: str = "m", forward: frozenset[str] = frozenset(), answers: int = 1
) -> AsyncGenerator[tuple[Served, StrictChat], None]:
    """Serve a yard whose model is at a strict provider."""
    provider = StrictChat(*[says("Hi.")] * answers)
    async with (
        provider.serving() as url,
        serve_model(OpenAIChat(base_url=url, model=model, forward=forward)) as served,
    ):
        yield served, provider


async def test_a_completion_passes_its_options_on() -> None:
    async with serve_chat() as (served, provider):
        answer = await served.client.chat.completions.with_raw_response.create(
            model="default", messages=HELLO, **FIELDS, **PRIVATE
        )
    (request,) = provider.requests
    assert {name: getattr(request, name) for name in FIELDS if name != "prediction"} == {
        name: value for name, value in FIELDS.items() if name != "prediction"
    }
    assert request.prediction is not None and request.prediction.content == "x"
    assert [getattr(request, name) for name in PRIVATE] == [None] * 4
    assert answer.headers[IGNORED] == "metadata, service_tier, user, safety_identifier"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_that_forwards_them_gets_the_private_options_too(stream: bool) -> None:
    async with serve_chat(forward=frozenset(PRIVATE)) as (served, provider):
        answer = await served.client.chat.completions.with_raw_response.create(
            model="default", messages=HELLO, stream=stream, **PRIVATE
        )
        await answer.parse().close() if stream else None
    # OpenAI takes metadata only with answers that it stores.
    assert answer.headers[IGNORED] == "metadata"
    (request,) = provider.requests
    assert (request.service_tier, request.user, request.safety_identifier) == ("flex", "ann", "a7")


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_is_named_if_nothing_was_left_out(stream: bool) -> None:
    async with serve_chat() as (served, _):
        answer = await served.client.chat.completions.with_raw_response.create(
            model="default", messages=HELLO, stream=stream, temperature=0.5, logprobs=False, **FIELDS
        )
        await answer.parse().close() if stream else None
    assert IGNORED not in answer.headers


async def test_the_first_model_of_a_chain_decides_what_is_named() -> None:
    provider = strict_messages.StrictMessages(*[strict_messages.says("Hi.")] * 2)
    async with provider.serving() as url:
        models = {"first": Anthropic(base_url=url, model="m"), "second": OpenAIChat(base_url=url, model="m")}
        async with serve_model(FallbackModel(tuple(models), models.__getitem__)) as served:
            answer = await served.client.chat.completions.with_raw_response.create(
                model="default", messages=HELLO, temperature=0.5, logprobs=True, **FIELDS
            )
            response = await served.client.responses.with_raw_response.create(
                model="default", input="Hello", text={"verbosity": "low"}, user="ann"
            )
        for model in models.values():
            await model.close()
    penalties = "frequency_penalty, presence_penalty, logit_bias"
    assert answer.headers[IGNORED] == f"temperature, {penalties}, logprobs, verbosity, prediction, prompt_cache_key"
    assert response.headers[IGNORED] == "text.verbosity, user"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_passes_its_options_on(stream: bool) -> None:
    async with serve_chat("gpt-5-mini", frozenset({"user"})) as (served, provider):
        answer = await served.client.responses.with_raw_response.create(
            model="default",
            input="Hello",
            stream=stream,
            reasoning={"effort": "xhigh"},
            text={"verbosity": "low"},
            prompt_cache_key="shop",
            service_tier="flex",
            user="ann",
            metadata={"shop": "1"},
            top_logprobs=3,
            include=["message.output_text.logprobs"],
        )
        if stream:
            await answer.parse().close()
        else:
            response = answer.parse()
            assert (response.user, response.prompt_cache_key, response.text.verbosity) == ("ann", "shop", "low")
            assert (response.reasoning.effort, response.metadata) == ("xhigh", {"shop": "1"})
    # The response repeats the metadata, so it was not ignored.
    assert answer.headers[IGNORED] == "service_tier, top_logprobs, include"
    (request,) = provider.requests
    assert (request.reasoning_effort, request.verbosity, request.prompt_cache_key) == ("xhigh", "low", "shop")
    assert (request.user, request.service_tier, request.metadata) == ("ann", None, None)


async def test_a_model_that_does_not_tell_gets_all_options() -> None:
    async with serve_script([say("Hi.")]) as served:
        answer = await served.client.chat.completions.with_raw_response.create(
            model="default", messages=HELLO, user="ann", frequency_penalty=0.5
        )
        assert served.model.requests[0].options.extra == {"frequency_penalty": 0.5, "user": "ann"}
    assert IGNORED not in answer.headers


async def test_an_option_that_is_too_large_is_refused_by_its_name() -> None:
    async with serve_chat() as (served, _):
        with pytest.raises(BadRequestError) as caught:
            await served.complete(prediction={"type": "content", "content": "x" * 200_000})
    assert caught.value.param == "prediction" and "100,000 bytes" in caught.value.message


def list_tokens(choices: list[Json]) -> list[str]:
    return [token.token for choice in choices if choice.logprobs for token in choice.logprobs.content]


async def test_an_answer_has_the_probabilities_of_its_tokens() -> None:
    replies = [asks(("add_to_groceries", {"item": "milk"})), says_with_logprobs("Do", "ne.")]
    provider = StrictChat(*replies, *replies)
    async with (
        provider.serving() as url,
        serve_model(OpenAIChat(base_url=url, model="m"), [add_to_groceries]) as served,
    ):
        answer = await served.complete(logprobs=True, top_logprobs=3)
        chunks = await served.stream(logprobs=True)
        # The same request again is answered from the log.
        headers = {"idempotency-key": "k-1"}
        provider.replies = [says_with_logprobs("Hi", " you")]
        first = await served.stream(logprobs=True, extra_headers=headers)
        again = await served.stream(logprobs=True, extra_headers=headers)
    assert [request.top_logprobs for request in provider.requests] == [3, 3, None, None, None]
    assert all(request.logprobs for request in provider.requests)
    (choice,) = answer.choices
    assert (choice.message.content, list_tokens([choice])) == ("Done.", ["Do", "ne."])
    assert choice.logprobs.content[0].logprob == -0.5 and choice.logprobs.content[0].bytes == [68, 111]
    pairs = [(chunk.choices[0].delta.content, list_tokens(chunk.choices)) for chunk in chunks]
    assert [pair for pair in pairs if pair[0]] == [("Do", ["Do"]), ("ne.", ["ne."])]
    for stream in (first, again):
        assert join_content(stream) == "Hi you"
        assert list_tokens([chunk.choices[0] for chunk in stream]) == ["Hi", " you"]


async def test_a_structured_answer_has_them_too() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    output = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    provider = StrictChat(*[says_with_logprobs('{"a"', ":1}")] * 2)
    async with provider.serving() as url, serve_model(OpenAIChat(base_url=url, model="m")) as served:
        answer = await served.complete(logprobs=True, response_format=output)
        chunks = await served.stream(logprobs=True, response_format=output)
    assert list_tokens(answer.choices) == list_tokens([chunk.choices[0] for chunk in chunks]) == ['{"a"', ":1}"]


async def test_an_answer_without_probabilities_has_none() -> None:
    async with serve_chat(answers=2) as (served, _):
        answer = await served.complete(logprobs=True)
        chunks = await served.stream()
    assert answer.choices[0].logprobs is None
    assert all(chunk.choices[0].logprobs is None for chunk in chunks)
