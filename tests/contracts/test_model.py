"""The model contract, over every model: deltas, then one end; what was streamed is what is kept."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import pytest
from msgspec.structs import replace

from toolyard.core.conversation.events import ArgumentsAppended, ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.conversation.history import History
from toolyard.core.items import Call, ModelText
from toolyard.core.ports import Model, ModelRequest
from toolyard.core.tools.definition import Tool
from toolyard.models.chat import OpenAIChat
from toolyard.models.fallback import FallbackModel
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.offline import Offline
from toolyard.models.responses import OpenAIResponses
from toolyard.testing import Scripted, Turn, call, fail, say, together
from wire import gemini_bytes, responses_bytes, strict, strict_gemini, strict_messages
from wire.checks import check_call_ids
from wire.local import CountingClock, offer, open_model, request, user
from wire.played import build_chunks, build_scripted_model
from wire.strict import Reply, refuses
from wire.strict_chat import StrictChat, asks, says
from wire.strict_gemini import strict_gemini as gemini_server
from wire.strict_responses import strict_responses

Event = ModelDelta | TurnEnded | TurnFailed
OpenModel = Callable[[str], AbstractAsyncContextManager[Model]]

SCRIPTED: dict[str, Turn] = {
    "a text": say("I've ", "added ", "面粉 🥛."),
    "calls": together(say("Let me see. "), call("add", a=1), call("add", a=2)),
    "a failure": fail("no such model"),
}
CHAT: dict[str, Reply] = {
    "a text": says("I've ", "added ", "面粉 🥛."),
    "calls": asks(("add", {"a": 1}), ("add", {"a": 2}), text="Let me see. "),
    "a failure": refuses(404, "no such model"),
}
RESPONSES: dict[str, strict.Reply] = {
    "a text": responses_bytes.says("I've ", "added ", "面粉 🥛."),
    "calls": responses_bytes.asks(("add", {"a": 1}), ("add", {"a": 2}), words="Let me see. "),
    "a failure": strict.refuses(404, "no such model"),
}
GEMINI: dict[str, strict.Reply] = {
    "a text": gemini_bytes.says("I've ", "added ", "面粉 🥛."),
    "calls": gemini_bytes.asks(("add", {"a": 1}), ("add", {"a": 2}), words="Let me see. "),
    "a failure": strict_gemini.refuses(404, "no such model"),
}
MESSAGES: dict[str, strict.Reply] = {
    "a text": strict_messages.says("I've ", "added ", "面粉 🥛."),
    "calls": strict_messages.asks(("add", {"a": 1}), ("add", {"a": 2}), text="Let me see. "),
    "a failure": strict_messages.refuses(404, "no such model", "not_found_error"),
}


CALL_JSON = '{"name":"add","arguments":{"a":%d}}'
LOCAL: dict[str, list[object]] = {
    "a text": build_chunks("I've ", "added ", "面粉 🥛."),
    "calls": build_chunks("Let me see. \n", CALL_JSON % 1, "\n", CALL_JSON % 2),
    "a failure": [{"error": {"message": "no such model"}}],
}
ADD = Tool(name="add")


def open_scripted(reply: str) -> AbstractAsyncContextManager[Model]:
    return nullcontext(Scripted([SCRIPTED[reply]]))


@asynccontextmanager
async def openai_chat(reply: str) -> AsyncGenerator[Model, None]:
    async with StrictChat(CHAT[reply]).serving() as base_url:
        model = OpenAIChat(base_url=base_url, model="m", api_key="k")
        yield model
        await model.close()


@asynccontextmanager
async def openai_responses(reply: str) -> AsyncGenerator[Model, None]:
    async with strict_responses(RESPONSES[reply]).serving() as base_url:
        model = OpenAIResponses(base_url=base_url, model="m", api_key="k")
        yield model
        await model.close()


@asynccontextmanager
async def anthropic(reply: str) -> AsyncGenerator[Model, None]:
    async with strict_messages.StrictMessages(MESSAGES[reply]).serving() as base_url:
        model = Anthropic(base_url=base_url, model="m", api_key="k")
        yield model
        await model.close()


@asynccontextmanager
async def gemini(reply: str) -> AsyncGenerator[Model, None]:
    async with gemini_server(GEMINI[reply]).serving() as base_url:
        model = Gemini(base_url=base_url, model=strict_gemini.MODEL, api_key="k")
        yield model
        await model.close()


@asynccontextmanager
async def local(reply: str) -> AsyncGenerator[Model, None]:
    async with open_model(build_scripted_model(LOCAL[reply])) as model:
        yield model


class FixedMessageModel:
    """The offline model, which says and calls what it is asked for: it is asked for this."""

    def __init__(self, message: str) -> None:
        self._message = message

    def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
        a: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
        add = Tool(name="add", parameters=a, examples=("add {a} to it",))
        fixed_request = replace(request, history=History([user(self._message)]), offer=offer(add))
        return Offline().stream(fixed_request)

    async def close(self) -> None:
        return None


def fallback(reply: str) -> AbstractAsyncContextManager[Model]:
    models = {"down": Scripted([fail("down", "unavailable")]), "up": Scripted([SCRIPTED[reply]])}
    return nullcontext(FallbackModel(tuple(models), models.__getitem__))


def offline(reply: str) -> AbstractAsyncContextManager[Model]:
    return nullcontext(FixedMessageModel({"a text": "你好 🥛", "calls": "add 1 and 2 to it"}[reply]))


PROVIDERS: list[OpenModel] = [open_scripted, openai_chat, openai_responses, anthropic, gemini, local, fallback]
"""Those that may fail, and that may speak before they call."""
MODELS: list[OpenModel] = [*PROVIDERS, offline]
REPLIES = [
    *((provider, reply) for provider in PROVIDERS for reply in SCRIPTED),
    (offline, "a text"),
    (offline, "calls"),
]
SPOKEN = [*((provider, reply) for provider in PROVIDERS for reply in ("a text", "calls")), (offline, "a text")]


def stream_events(open_model: OpenModel, reply: str) -> list[Event]:
    async def test() -> list[Event]:
        async with asyncio.timeout(20), open_model(reply) as model:
            return [
                event async for event in model.stream(request([user("hi")], tools=offer(ADD), clock=CountingClock()))
            ]

    return asyncio.run(test())


def get_turn_end(events: Sequence[Event]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded), events[-1]
    return events[-1]


@pytest.mark.parametrize(("build", "reply"), REPLIES)
def test_a_model_gives_deltas_and_then_exactly_one_end(build: OpenModel, reply: str) -> None:
    *deltas, last = stream_events(build, reply)
    assert isinstance(last, TurnEnded | TurnFailed)
    assert not any(isinstance(event, TurnEnded | TurnFailed) for event in deltas)


@pytest.mark.parametrize(("build", "reply"), SPOKEN)
def test_the_text_that_was_streamed_is_kept_and_offsets_count_its_bytes(build: OpenModel, reply: str) -> None:
    events = stream_events(build, reply)
    streamed_text = ""
    for event in events:
        if isinstance(event, TextAppended):
            assert event.offset == len(streamed_text.encode())
            streamed_text += event.text
    assert (
        streamed_text == "".join(item.text for item in get_turn_end(events).items if isinstance(item, ModelText)) != ""
    )


@pytest.mark.parametrize("build", MODELS)
def test_calls_come_last_with_ids_of_ours_and_the_finish_says_that_there_are_some(build: OpenModel) -> None:
    events = stream_events(build, "calls")
    turn = get_turn_end(events)
    assert turn.finish == "calls"
    calls = [item for item in turn.items if isinstance(item, Call)]
    assert list(turn.items[-2:]) == calls and [str(call.arguments["a"]) for call in calls] == ["1", "2"]
    assert len({item.id for item in turn.items}) == len(turn.items) and all(
        call.id.startswith("call") for call in calls
    )
    assert {event.index for event in events if isinstance(event, ArgumentsAppended)} == {0, 1}
    check_call_ids(events)


@pytest.mark.parametrize("build", MODELS)
def test_a_text_ends_with_stop_and_counts_tokens(build: OpenModel) -> None:
    turn = get_turn_end(stream_events(build, "a text"))
    assert turn.finish == "stop" and turn.usage.total > 0


@pytest.mark.parametrize("build", PROVIDERS)
def test_a_failure_is_data_with_the_providers_words(build: OpenModel) -> None:
    (failure,) = stream_events(build, "a failure")
    assert isinstance(failure, TurnFailed) and "no such model" in failure.problem.error and failure.problem.error_type


@pytest.mark.parametrize("build", MODELS)
async def test_a_stream_can_be_left_in_the_middle(build: OpenModel) -> None:
    async with asyncio.timeout(20), build("a text") as model:
        stream = model.stream(request([user("hi")], clock=CountingClock()))
        assert isinstance(await anext(stream), TextAppended)
        await stream.aclose()
