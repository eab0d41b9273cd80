"""`/ai-sdk/chat` on the wire: the frames of a run, what is read of a request, and what is refused in words."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager

import pytest

from surfaces.api_client import Json, build_key, build_yard
from surfaces.fast_model import WHOLE_TEXT, FastModel, read_late
from surfaces.in_process_client import InProcessClient, open_in_process_client
from toolyard import Context, Limits, tool
from toolyard.core.conversation.events import (
    ModelDelta,
    ReasoningAppended,
    RunRequest,
    TextAppended,
    TurnEnded,
    TurnFailed,
)
from toolyard.core.items import Citation, ModelText, Reasoning, TextPart, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.surfaces.ai_sdk.encoder import UiMessageEncoder, WholeTurnReader
from toolyard.surfaces.http.sse import stream_events
from toolyard.surfaces.shared.threads import Thread, ThreadMessage, Threads, derive_conversation_id
from toolyard.testing import Script, call, fail, say, together
from toolyard.yard import LOCAL_CALLER

PDF = "data:application/pdf;base64,AAAA"
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    return f"ordered {item}"


@tool
def count(to: int, context: Context) -> int:
    """Count."""
    context.progress(1, total=to, message="one")
    return to


class UiClient:
    """Sends the requests of a chat, and reads the frames of its streams."""

    def __init__(self, http: InProcessClient, thread: str = "chat-1", **headers: str) -> None:
        self._http = http
        self._thread = thread
        self._headers = headers

    async def chat(self, *messages: Json, **fields: object) -> list[Json]:
        """Return the frames of an answer, without the last one, which every stream has."""
        body = {"id": self._thread, "messages": list(messages), "trigger": "submit-message", **fields}
        return await self._read("POST", "/ai-sdk/chat", body)

    async def resume(self) -> list[Json]:
        return await self._read("GET", f"/ai-sdk/chat/{self._thread}/stream")

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Json]:
        status, answer, _ = await self._http.ask(method, path, body, **self._headers)
        return status, answer

    async def _read(self, method: str, path: str, body: object = None) -> list[Json]:
        frames: list[Json] = []
        async with aclosing(self._http.stream_data(method, path, body, **self._headers)) as events:
            async for data in events:
                if data == "[DONE]":
                    return frames
                frames.append(json.loads(data))
        raise AssertionError(f"the stream has no end: {frames}")


@asynccontextmanager
async def open_ui(script: Script | Json, **wiring: object) -> AsyncGenerator[UiClient, None]:
    async with build_yard(script, **wiring) as yard, open_in_process_client(yard) as http:
        yield UiClient(http)


def user(text: str, id: str = "m1", *parts: Json) -> Json:
    return {"id": id, "role": "user", "parts": [*parts, {"type": "text", "text": text}]}


def assistant(*parts: Json) -> Json:
    return {"id": "a1", "role": "assistant", "parts": list(parts)}


def get_types(frames: Sequence[Json]) -> list[str]:
    return [frame["type"] for frame in frames]


def get_frame(frames: Sequence[Json], kind: str) -> Json:
    return next(frame for frame in frames if frame["type"] == kind)


async def test_the_frames_of_a_text() -> None:
    async with open_ui([say("Hel", "lo.")]) as ui:
        frames = await ui.chat(user("Hi"))
        assert frames[0] == {"type": "start", "messageId": frames[0]["messageId"]}
        assert frames[1:] == [
            {"type": "start-step"},
            {"type": "text-start", "id": "text-1-1"},
            {"type": "text-delta", "id": "text-1-1", "delta": "Hel"},
            {"type": "text-delta", "id": "text-1-1", "delta": "lo."},
            {"type": "text-end", "id": "text-1-1"},
            {
                "type": "data-usage",
                "id": "usage",
                "data": {"inputTokens": 10, "outputTokens": 5, "cachedInputTokens": 0, "totalTokens": 15},
            },
            {"type": "finish-step"},
            {"type": "finish", "finishReason": "stop"},
        ]


async def test_calls_of_the_server_are_marked_and_their_results_are_values() -> None:
    async with open_ui([call("count", to=3), say("Three.")], tools=[count]) as ui:
        frames = await ui.chat(user("Count"))
        assert get_types(frames) == [
            "start",
            "start-step",
            "tool-input-start",
            "tool-input-delta",
            "tool-input-available",
            "data-progress",
            "tool-output-available",
            "finish-step",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "data-usage",
            "finish-step",
            "finish",
        ]
        assert all(frame["providerExecuted"] for frame in frames[2:7] if "toolName" in frame)
        progress = get_frame(frames, "data-progress")
        assert (progress["transient"], progress["data"]["message"]) == (True, "one")
        assert get_frame(frames, "tool-output-available")["output"] == "3"


class ReasoningModel:
    """A model that thinks, and names its sources."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        clock = request.clock
        for text in ("Let me ", "think."):
            offset = 0 if text == "Let me " else 7
            yield ReasoningAppended(turn=1, offset=offset, text=text)
        yield TextAppended(turn=1, offset=0, text="It rains.")
        cited = [Citation(start=0, end=2, url=url, title="W") for url in ("https://a.example", "https://a.example")]
        items = (
            Reasoning(id=clock.new_id("reasoning"), at=clock.now(), text="Let me think."),
            ModelText(id=clock.new_id("text"), at=clock.now(), text="It rains.", citations=tuple(cited)),
        )
        yield TurnEnded(items=items, finish="length")

    async def close(self) -> None: ...


async def test_reasoning_and_sources_are_parts_and_a_replay_has_the_same_order() -> None:
    async with open_ui(ReasoningModel()) as ui:
        frames = await ui.chat(user("Weather?"))
        assert get_types(frames)[2:-3] == [
            "reasoning-start",
            "reasoning-delta",
            "reasoning-delta",
            "reasoning-end",
            "text-start",
            "text-delta",
            "text-end",
            "source-url",
        ]
        source = get_frame(frames, "source-url")
        assert (source["url"], source["title"]) == ("https://a.example", "W")
        assert frames[-1] == {"type": "finish", "finishReason": "length"}
        again = await ui.chat(user("Weather?"))
        assert [kind for kind in get_types(again) if kind.endswith("-delta")] == ["reasoning-delta", "text-delta"]


async def test_a_limit_ends_with_the_servers_message_in_a_step_of_its_own() -> None:
    limits = Limits(turns_per_request=1)
    async with open_ui([call("count", to=1)], tools=[count], limits=limits) as ui:
        frames = await ui.chat(user("Count"))
        assert get_types(frames)[-7:] == [
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "data-usage",
            "finish-step",
            "finish",
        ]
        assert frames[-1]["finishReason"] == "other"


async def test_a_failure_is_an_error_frame_and_the_last_one() -> None:
    async with open_ui([fail("the provider is down")]) as ui:
        assert (await ui.chat(user("Hi")))[-1] == {"type": "error", "errorText": "the provider is down"}


async def test_a_failing_and_a_denied_call_say_so() -> None:
    async with open_ui([together(call("missing"), call("order", item="x")), say("ok")], tools=[order]) as ui:
        frames = await ui.chat(user("Go"))
        error = get_frame(frames, "tool-output-error")
        assert "missing" in error["errorText"]
        request = get_frame(frames, "tool-approval-request")
        part = {
            "type": "tool-order",
            "toolCallId": request["toolCallId"],
            "state": "approval-responded",
            "approval": {"id": request["approvalId"], "approved": False, "reason": "no"},
        }
        continued = await ui.chat(user("Go"), assistant({"type": "step-start"}, part))
        assert get_types(continued)[:2] == ["start", "tool-output-denied"]
        assert continued[0]["messageId"] == frames[0]["messageId"]
        assert get_types(await ui.chat(user("Go"))).count("tool-approval-response") == 1


async def test_a_files_part_reaches_the_model_and_other_data_does_not() -> None:
    async with build_yard([say("A pixel.")]) as yard, open_in_process_client(yard) as http:
        parts = [
            {"type": "data-mood", "data": "good"},
            {"type": "file", "mediaType": "image/png", "url": PIXEL},
            {
                "type": "file",
                "mediaType": "application/pdf",
                "url": "data:application/pdf;base64,AAAA",
                "filename": "a",
            },
        ]
        await UiClient(http).chat(user("What is it?", "m1", *parts))
        (message, _) = await yard.history(derive_conversation_id(LOCAL_CALLER, "chat-1"))
        assert isinstance(message, UserMessage)
        assert [type(part).__name__ for part in message.parts] == ["ImagePart", "FilePart", "TextPart"]


FOREIGN: list[tuple[Json, str]] = [
    ({"id": "m1", "role": "user", "parts": [{"type": "audio"}]}, "messages.0.parts.0: is of the type 'audio'"),
    ({"id": "m1", "role": "user", "parts": []}, "messages.0.parts: have neither a text nor a file"),
    ({"id": "m1", "role": "user", "parts": [{"type": "text", "text": 1}]}, "messages.0.parts.0: needs a text"),
    (
        {"id": "m1", "role": "user", "parts": [{"type": "file", "url": "file:///etc"}]},
        "messages.0.parts.0: a file needs",
    ),
    ({"role": "user", "parts": [{"type": "text", "text": "x"}]}, "messages.0.id: is missing"),
    ({"id": "m1", "role": "system", "parts": []}, "messages.0: has the role 'system'"),
    (assistant({"type": "tool-x", "state": "output-available", "output": 1}), "messages.0.parts.0: has no toolCallId"),
    (assistant({"type": "tool-x", "state": "approval-responded", "toolCallId": "c"}), "needs an approval with its id"),
    (
        assistant(
            {
                "type": "tool-x",
                "state": "approval-responded",
                "toolCallId": "c",
                "approval": {"id": "other", "approved": True},
            }
        ),
        "the approval 'other' is not one of this call",
    ),
    (assistant({"type": "tool-x", "state": "output-available", "toolCallId": "call_1"}), "there is no such thread"),
    (assistant({"type": "text", "text": "x"}), "there is no such thread"),
]


@pytest.mark.parametrize(("message", "words"), FOREIGN)
async def test_what_cannot_be_read_is_an_error_frame_with_words(message: Json, words: str) -> None:
    async with open_ui([]) as ui:
        (frame,) = await ui.chat(message)
        assert (frame["type"], words in frame["errorText"]) == ("error", True), frame


async def test_a_result_for_a_call_that_does_not_exist_is_an_error_and_the_thread_goes_on() -> None:
    async with open_ui([say("One."), say("Two.")]) as ui:
        await ui.chat(user("First"))
        part = {"type": "tool-x", "state": "output-available", "toolCallId": "call_1", "output": 1}
        (frame,) = await ui.chat(user("First"), assistant(part))
        assert frame["errorText"] == "call 'call_1' does not wait for a result here: there is no such call"
        (frame,) = await ui.chat(user("First"), assistant({"type": "text", "text": "x"}))
        assert "answers no call" in frame["errorText"]
        assert get_frame(await ui.chat(user("Second", "m2")), "text-delta")["delta"] == "Two."


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"messages": [user("x")]}, "id"),
        ({"id": "c", "messages": []}, "messages"),
        ({"id": "c"}, "messages"),
        ({"id": "c", "messages": [user("x")], "trigger": "dance"}, "trigger"),
        ({"id": "", "messages": [user("x")]}, "id"),
        ({"id": "x" * 201, "messages": [user("x")]}, "id"),
    ],
)
async def test_a_body_that_is_none_is_refused_with_the_name_of_the_field(body: Json, key: str) -> None:
    async with open_ui([]) as ui:
        status, answer = await ui.ask("POST", "/ai-sdk/chat", body)
        assert (status, answer["error_type"]) == (422, "validation_error")
        assert key in str(answer["details"]), answer


async def test_a_key_that_speaks_for_users_has_to_name_one() -> None:
    keys = [build_key("shop", trusted=True)]
    async with build_yard([say("Hello.")], keys=keys) as yard, open_in_process_client(yard) as http:
        nobody, ann = UiClient(http, x_api_key="shop"), UiClient(http, x_api_key="shop", x_user="ann")
        bob = UiClient(http, x_api_key="shop", x_user="bob")
        empty = UiClient(http, x_api_key="shop", x_user="")
        body = {"id": "chat-1", "messages": [user("Hi")]}
        for unnamed in (nobody, empty):
            for method, path in (("POST", "/ai-sdk/chat"), ("GET", "/ai-sdk/chat/chat-1/stream")):
                status, answer = await unnamed.ask(method, path, body if method == "POST" else None)
                assert (status, "X-User" in answer["error"]) == (403, True)
        assert get_frame(await ann.chat(user("Hi")), "text-delta")["delta"] == "Hello."
        assert (await bob.ask("GET", "/ai-sdk/chat/chat-1/stream"))[0] == 204
        part = {"type": "tool-x", "state": "output-available", "toolCallId": "call_1", "output": 1}
        assert (await bob.chat(assistant(part)))[0]["errorText"] == "there is no such thread"


async def test_a_thread_of_another_user_is_not_seen_by_its_id() -> None:
    keys = [build_key("ann"), build_key("eve", "operator", "approver", "admin")]
    script = [call("order", item="x"), say("For Eve.")]
    async with (
        build_yard(script, keys=keys, tools=[order]) as yard,
        open_in_process_client(yard) as http,
    ):
        ann, eve = UiClient(http, x_api_key="ann"), UiClient(http, x_api_key="eve")
        asked = get_frame(await ann.chat(user("Order x")), "tool-approval-request")
        assert (await eve.ask("GET", "/ai-sdk/chat/chat-1/stream"))[0] == 204
        assert (await eve.ask("POST", "/ai-sdk/chat/chat-1/stop"))[0] == 200
        approval = {"id": asked["approvalId"], "approved": True}
        part = {"type": "tool-order", "toolCallId": asked["toolCallId"], "state": "approval-responded"}
        (frame,) = await eve.chat(assistant({**part, "approval": approval}))
        assert frame["errorText"] == "there is no such thread"
        assert get_frame(await eve.chat(user("Hi")), "text-delta")["delta"] == "For Eve."
        assert get_types(await ann.resume())[-1] == "finish"


async def test_a_message_is_limited_and_what_a_call_waits_for_is_not() -> None:
    async with open_ui([call("order", item="x"), say("ok")], tools=[order], requests_per_minute=1) as ui:
        asked = get_frame(await ui.chat(user("Order x")), "tool-approval-request")
        body = {"id": "chat-1", "messages": [user("Again", "m2")]}
        assert (await ui.ask("POST", "/ai-sdk/chat", body))[0] == 429
        part = {"type": "tool-order", "toolCallId": asked["toolCallId"], "state": "approval-responded"}
        approval = {"id": asked["approvalId"], "approved": True}
        assert get_types(await ui.chat(assistant({**part, "approval": approval})))[-1] == "finish"


@pytest.mark.parametrize("tools", [[{"name": "take_photo", "parameters": {}}], {"take_photo": {"inputSchema": {}}}])
async def test_a_tool_of_the_client_hides_the_servers_and_is_offered_when_it_may_run(tools: Json) -> None:
    async with open_ui([call("take_photo"), say("ok")], tools=[]) as ui:
        frames = await ui.chat(user("Photo"), tools=tools, system="Be brief.")
        assert get_types(frames)[2:] == [
            "tool-input-start",
            "tool-input-delta",
            "tool-input-available",
            "finish-step",
            "finish",
        ]
        assert not any("providerExecuted" in frame for frame in frames)
        call_id = frames[2]["toolCallId"]
        part = {"type": "tool-take_photo", "toolCallId": call_id, "state": "output-error", "errorText": "no camera"}
        continued = await ui.chat(user("Photo"), assistant(part))
        assert "tool-output-error" not in get_types(continued)  # the client has it
        assert get_frame(await ui.chat(user("Photo")), "tool-output-error")["errorText"] == "no camera"


async def test_a_new_message_ends_a_run_that_waits_and_one_that_runs_is_waited_for() -> None:
    async with open_ui([call("order", item="x"), say("Never mind.")], tools=[order]) as ui:
        await ui.chat(user("Order x"))
        assert get_frame(await ui.chat(user("Forget it", "m2")), "text-delta")["delta"] == "Never mind."


async def test_an_earlier_message_is_continued_if_the_request_names_it() -> None:
    async with open_ui([call("order", item="x"), say("ok")], tools=[order]) as ui:
        asked = get_frame(await ui.chat(user("Order x")), "tool-approval-request")
        part = {"type": "tool-order", "toolCallId": asked["toolCallId"], "state": "approval-responded"}
        approval = {"id": asked["approvalId"], "approved": True}
        answered = assistant({**part, "approval": approval})
        frames = await ui.chat(user("Order x"), answered, user("unsent", "m2"), messageId="a1")
        assert get_frame(frames, "tool-output-available")["output"] == "ordered x"


@pytest.mark.parametrize("first_bytes", [0, 10_000])
async def test_a_client_that_reads_slowly_gets_all_of_the_text(first_bytes: int) -> None:
    async with build_yard(FastModel()) as yard:
        threads = Threads(yard.service, yard.access)
        conversation = derive_conversation_id(LOCAL_CALLER, "chat-1")
        thread = Thread(conversation=conversation, caller=LOCAL_CALLER, correlation_id="trace")
        message = ThreadMessage(id="m1", parts=(TextPart(text="Talk"),))
        run = await threads.send(thread, message, RunRequest())
        stream = stream_events(WholeTurnReader(run.reader), UiMessageEncoder(run.view, run.reader.end), "trace")
        body = await read_late(yard, conversation, stream, first_bytes)
        frames = body.decode().split("\n\n")[:-2]
        decoded = [json.loads(frame.removeprefix("data: ")) for frame in frames]
        for kind in ("reasoning-delta", "text-delta"):
            assert "".join(frame["delta"] for frame in decoded if frame["type"] == kind) == WHOLE_TEXT
        starts = [frame["type"] for frame in decoded if frame["type"].endswith("-start")]
        assert starts == ["reasoning-start", "text-start"]
