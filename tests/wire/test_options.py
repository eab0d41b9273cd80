"""The options of a request: each wire sends them under its provider's names, or refuses what its provider has not."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolyard.core.events import TurnEnded, TurnFailed
from toolyard.core.history import History
from toolyard.core.options import DEFAULT_OPTIONS, Options
from toolyard.core.ports import Model
from toolyard.core.tools import Tool
from toolyard.models.chat import OpenAIChat
from toolyard.models.configured import ConfiguredModel
from toolyard.models.encode_cache import EncodeCache
from toolyard.models.fallback import FallbackModel
from toolyard.models.gemini import Gemini
from toolyard.models.local.prompt import build_grammar
from toolyard.models.messages import Anthropic
from toolyard.models.offline import Offline
from toolyard.models.responses import OpenAIResponses
from toolyard.testing import Scripted, fail, say
from wire import gemini_bytes, responses_bytes, strict_gemini, strict_messages
from wire.local import events_of, failure_of, offer, open_model, request, user
from wire.played import build_chunks, build_scripted_model
from wire.strict import StrictServer
from wire.strict_chat import StrictChat, says
from wire.strict_gemini import strict_gemini as gemini_server
from wire.strict_responses import strict_responses

Body = dict[str, Any]
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}, "degrees": {"type": "integer", "minimum": -90}},
    "required": ["city", "degrees"],
}
WITH_OPTIONAL: dict[str, object] = {**SCHEMA, "required": ["city"]}
OPEN: dict[str, object] = {"type": "object", "additionalProperties": {"type": "string"}}
CITY = {"type": "string", "description": "(minLength: 2)"}
CLOSED = {"type": "object", "required": ["city", "degrees"], "additionalProperties": False}
OPENAI_SCHEMA = {**CLOSED, "properties": {"city": CITY, "degrees": {"type": "integer", "minimum": -90}}}
SAMPLING = Options(max_tokens=900, temperature=0.2, top_p=0.9)
ADD = offer(Tool(name="add"))


class Wire:
    """A wire with its strict provider."""

    def __init__(self, open_server: Callable[[], StrictServer], open_wire: Callable[[str], Model]) -> None:
        self._open_server = open_server
        self._open_wire = open_wire

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[StrictServer, Model], None]:
        server = self._open_server()
        async with server.serving() as base_url, open_model(self._open_wire(base_url)) as model:
            yield server, model

    async def send(self, options: Options, **more: Any) -> Body:
        """Return the body that the provider received and accepted."""
        async with self.open() as (server, model):
            events = await events_of(model, request([user("hi")], options=options, **more))
            assert isinstance(events[-1], TurnEnded), events[-1]
            return json.loads(server.bodies[-1])

    async def send_refused(self, options: Options, **more: Any) -> str:
        """Return why the wire refuses the options; the provider has received nothing."""
        async with self.open() as (server, model):
            failed = await failure_of(model, request([user("hi")], options=options, **more))
            assert server.bodies == []
            assert failed.problem.error_type == "unsupported_option"
            assert str(failed.problem.details["option"]) in failed.problem.error
            return failed.problem.error


CHAT = Wire(lambda: StrictChat(says("hi")), lambda url: OpenAIChat(base_url=url, model="m"))
DEEPSEEK = Wire(lambda: StrictChat(says("hi")), lambda url: OpenAIChat(base_url=url, model="m", provider="deepseek"))
RESPONSES = Wire(
    lambda: strict_responses(responses_bytes.says("hi")),
    lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL),
)
MESSAGES = Wire(
    lambda: strict_messages.StrictMessages(strict_messages.says("hi")), lambda url: Anthropic(base_url=url, model="m")
)
GEMINI = Wire(
    lambda: gemini_server(gemini_bytes.says("hi")), lambda url: Gemini(base_url=url, model=strict_gemini.MODEL)
)
OLD_GEMINI = Wire(
    lambda: gemini_server(gemini_bytes.says("hi"), model="gemini-2.5-flash"),
    lambda url: Gemini(base_url=url, model="gemini-2.5-flash"),
)
WIRES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "gemini": GEMINI}


@pytest.mark.parametrize(
    ("wire", "options", "expected"),
    [
        (CHAT, SAMPLING, {"max_completion_tokens": 900, "temperature": 0.2, "top_p": 0.9}),
        (CHAT, Options(stop=("END", "\n\n"), seed=0), {"stop": ["END", "\n\n"], "seed": 0}),
        (
            CHAT,
            Options(output_schema=SCHEMA),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": True, "schema": OPENAI_SCHEMA},
                }
            },
        ),
        (RESPONSES, SAMPLING, {"max_output_tokens": 900, "temperature": 0.2, "top_p": 0.9}),
        (
            RESPONSES,
            Options(output_schema=SCHEMA),
            {"text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": OPENAI_SCHEMA}}},
        ),
        (MESSAGES, SAMPLING, {"max_tokens": 900}),
        (MESSAGES, Options(stop=("END",)), {"stop_sequences": ["END"]}),
        (
            MESSAGES,
            Options(output_schema=WITH_OPTIONAL),
            {
                "output_config": {
                    "format": {
                        "type": "json_schema",
                        "schema": {
                            **CLOSED,
                            "required": ["city"],
                            "properties": {
                                "city": CITY,
                                "degrees": {"type": "integer", "description": "(minimum: -90)"},
                            },
                        },
                    }
                }
            },
        ),
    ],
)
async def test_a_provider_receives_options_under_its_own_names(wire: Wire, options: Options, expected: Body) -> None:
    assert await wire.send(options) == {**await wire.send(DEFAULT_OPTIONS), **expected}


async def test_gemini_receives_the_options_in_its_generation_config() -> None:
    plain = await GEMINI.send(DEFAULT_OPTIONS)
    options = Options(max_tokens=900, temperature=0.2, top_p=0.9, stop=("END",), seed=7, output_schema=SCHEMA)
    config = (body := await GEMINI.send(options)).pop("generationConfig")
    assert config.pop("responseJsonSchema")["required"] == ["city", "degrees"]
    assert config == {
        **plain.pop("generationConfig"),
        "maxOutputTokens": 900,
        "temperature": 0.2,
        "topP": 0.9,
        "stopSequences": ["END"],
        "seed": 7,
        "responseMimeType": "application/json",
    }
    assert body == plain


@pytest.mark.parametrize("schema", [WITH_OPTIONAL, OPEN])
async def test_openai_gets_a_schema_that_strict_mode_does_not_have_unenforced(schema: dict[str, object]) -> None:
    output = (await CHAT.send(Options(output_schema=schema)))["response_format"]["json_schema"]
    assert output["strict"] is False and output["schema"].items() >= schema.items()
    responses_format = (await RESPONSES.send(Options(output_schema=schema)))["text"]["format"]
    assert responses_format == {"type": "json_schema", **output}


@pytest.mark.parametrize(
    ("wire", "options", "why"),
    [
        (MESSAGES, Options(seed=7), "anthropic has no such option"),
        (MESSAGES, Options(output_schema=OPEN), "cannot enforce this schema, because"),
        (RESPONSES, Options(stop=("END",)), "Responses API has no such option"),
        (RESPONSES, Options(seed=7), "Responses API has no such option"),
        (DEEPSEEK, Options(output_schema=SCHEMA), "deepseek has no such option"),
        (DEEPSEEK, Options(seed=7), "deepseek has no such option"),
        (GEMINI, Options(stop=("1", "2", "3", "4", "5", "6")), "at most 5 texts"),
    ],
)
async def test_an_option_that_a_provider_does_not_have_fails_the_turn_in_words(
    wire: Wire, options: Options, why: str
) -> None:
    assert why in await wire.send_refused(options)


async def test_gemini_before_3_takes_a_schema_only_without_tools() -> None:
    options = Options(output_schema=SCHEMA)
    assert "responseJsonSchema" in (await OLD_GEMINI.send(options, model="gemini-2.5-flash"))["generationConfig"]
    assert "no schema beside tools" in await OLD_GEMINI.send_refused(options, tools=ADD)
    assert "responseJsonSchema" in (await GEMINI.send(options, tools=ADD))["generationConfig"]


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
async def test_other_options_neither_encode_the_history_again_nor_change_the_beginning_of_the_body(wire: Wire) -> None:
    memo: dict[str, object] = {}
    history = History([user(f"message {number}", f"user_{number}") for number in range(50)])
    async with wire.open() as (server, model):
        server.replies *= 3
        for options in (DEFAULT_OPTIONS, SAMPLING, Options(output_schema=SCHEMA)):
            await events_of(model, request(history, memo=memo, options=options))
        caches = [cache for cache in memo.values() if isinstance(cache, EncodeCache)]
        assert [cache.encodes for cache in caches] == [50]
        last_message = b"message 49"
        heads = {body[: body.rindex(last_message)] for body in server.bodies}
        assert len(server.bodies) == 3 and len(heads) == 1


async def test_a_local_model_samples_as_the_request_says_and_writes_by_the_schema() -> None:
    model_request = request([user("hi")], options=Options(output_schema=SCHEMA))
    rules = build_grammar(model_request).splitlines()
    assert rules[1] == "start: text" and rules[2].startswith("text: %json {") and '"city"' in rules[2]
    rules = build_grammar(request([user("hi")], tools=ADD, options=Options(output_schema=SCHEMA))).splitlines()
    assert "start: calls | text" in rules and any(rule.startswith("text: %json {") for rule in rules)
    async with open_model(build_scripted_model(build_chunks("hi"))) as model:
        events = await events_of(model, request([user("hi")], options=Options(temperature=0.0, stop=("END",), seed=7)))
        assert isinstance(events[-1], TurnEnded)


async def test_the_offline_model_refuses_to_shape_its_text_and_ignores_how_it_is_to_be_sampled() -> None:
    for options in (Options(stop=("END",)), Options(output_schema=SCHEMA)):
        (failed,) = await events_of(Offline(), request([user("hi")], options=options))
        assert isinstance(failed, TurnFailed) and failed.problem.error_type == "unsupported_option"
    events = await events_of(Offline(), request([user("hi")], options=Options(temperature=0.0, seed=7, max_tokens=5)))
    assert isinstance(events[-1], TurnEnded)


async def test_each_model_of_a_chain_applies_its_own_options_below_those_of_the_request() -> None:
    first, second = Scripted([fail("down", "unavailable")]), Scripted([say("hi")])
    models: dict[str, Model] = {
        "first": ConfiguredModel(first, Options(max_tokens=100, temperature=0.5, thinking="high")),
        "second": ConfiguredModel(second, Options(max_tokens=200, stop=("END",))),
    }
    await events_of(
        FallbackModel(tuple(models), models.__getitem__), request([user("hi")], options=Options(temperature=0.0))
    )
    assert [model_request.options for model_request in (*first.requests, *second.requests)] == [
        Options(max_tokens=100, temperature=0.0, thinking="high"),
        Options(max_tokens=200, temperature=0.0, stop=("END",)),
    ]
