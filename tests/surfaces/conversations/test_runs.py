"""A chat is one run: answered as JSON or as a stream, within its limits, one at a time."""

import asyncio
import json
from contextlib import aclosing

import pytest

from surfaces.api_client import (
    NOTHING_ENABLED,
    both_ways,
    build_key,
    drop_deltas,
    is_over,
    join_deltas,
    open_api_client,
)
from toolyard import Limits, tool
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import ModelText, Result, Usage, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.engine.loop.history_summary import SUMMARY_PROMPT
from toolyard.testing import Scripted, Turn, call, fail, say


@tool
def list_directory(path: str) -> dict[str, object]:
    """List the files of a directory."""
    if path == "/secret":
        raise PermissionError(path)
    return {"files": ["README.md", "API.md"]}


@tool(approval="ask")
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def echo(request: ModelRequest) -> Turn:
    last = request.history[-1]
    assert isinstance(last, UserMessage)
    return say("you said ", last.text)


@pytest.mark.proves(
    "004.chat-asks-again",
    "004.chat-endpoint",
    "004.chat-response",
    "004.chat-saves-answer",
    "004.chat-saves-calls",
    "004.chat-saves-results",
    "004.script",
)
@both_ways
async def test_the_steps_of_the_seeds_script(way: str) -> None:
    model = Scripted([call("list_directory", path="/docs"), say("There are ", "README.md and API.md.")])
    async with open_api_client(model, way=way, tools=[list_directory], default_settings=NOTHING_ENABLED) as http:
        reply = await http.post(
            "/conversations",
            {"title": "Test Chat with Tools", "description": "Testing", "system_prompt": "Use the tools."},
            expect=201,
        )
        path = f"/conversations/{reply['conversation']['id']}"
        first = (await http.get(f"{path}/tools/available"))["available_tools"][0]
        named = {"server_id": first["server_id"], "tool_name": first["tool_name"]}
        assert (await http.post(f"{path}/tools", named))["enabled_tools"] == [named]
        answer = await http.post(f"{path}/chat", {"content": "Can you use list_directory to help me?"})
        assert {"success", "user_message", "assistant_message", "message"} <= set(answer)
        assert answer["user_message"]["content"] == "Can you use list_directory to help me?"
        assert answer["assistant_message"]["content"] == "There are README.md and API.md."
        assert (answer["status"], answer["waiting"]) == ("done", [])
        assert (answer["token_count"], answer["tokens_sent"], answer["messages_in_context"]) == (30, 20, 3)
        messages = await http.list_messages(path)
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
        assert (messages[0], messages[-1]) == (answer["user_message"], answer["assistant_message"])
        (tool_call,) = messages[1]["tool_calls"]
        assert json.loads(tool_call["function"]["arguments"]) == {"path": "/docs"}
        assert (messages[2]["tool_call_id"], messages[2]["name"]) == (tool_call["id"], "list_directory")
        assert [type(item) for item in model.requests[0].history] == [UserMessage]
        assert isinstance(model.requests[1].history[-1], Result)


@pytest.mark.proves("004.chat-loads-conversation")
async def test_a_chat_uses_the_conversations_prompt_context_history_and_tools() -> None:
    model = Scripted([say("first"), say("second")])
    async with open_api_client(
        model, tools=[list_directory, delete_file], default_settings=NOTHING_ENABLED, system_prompt="You serve."
    ) as http:
        path = await http.create_conversation(system_prompt="Be brief.")
        await http.post(f"{path}/context", {"descriptive_name": "Place", "content": "/docs"}, expect=201)
        await http.post(f"{path}/tools", {"server_id": "function", "tool_name": "list_directory"})
        for content in ("one", "two"):
            await http.post(f"{path}/chat/", {"content": content})
        last = model.requests[-1]
        assert last.system == "You serve.\n\nBe brief.\n\nPlace: /docs"
        assert [item.text for item in last.history if isinstance(item, UserMessage | ModelText)] == [
            "one",
            "first",
            "two",
        ]
        assert [tool.name for tool in last.offer.tools] == ["list_directory"]


@pytest.mark.proves("004.chat-streamed")
@both_ways
async def test_the_same_run_as_a_stream_and_leaving_it_does_not_stop_it(way: str) -> None:

    script = [
        *(call("list_directory", path="/"), say("Two ", "files.")),
        *(call("list_directory", path="/"), say("Still two.")),
    ]
    async with open_api_client(script, way=way, tools=[list_directory]) as http:
        path = await http.create_conversation()
        received = [event async for event in http.stream_chat(path, "look")]
        assert [delta.get("state") or delta["type"] for delta in drop_deltas(received)] == [
            "started",
            "finished",
            "done",
        ]
        assert join_deltas(received) == "Two files." and is_over(received[-1][1])
        async with aclosing(http.stream_chat(path, "again")) as events:
            last, _ = await anext(events)
        remaining = await http.read_until_done(path, last)
        assert is_over(remaining[-1][1]) and join_deltas(remaining) == "Still two."
        assert (await http.list_messages(path))[-1]["content"] == "Still two."


async def test_a_client_that_hangs_up_on_a_json_answer_does_not_stop_the_run() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        """Takes its time."""
        started.set()
        await go_on.wait()
        return "at last"

    async with open_api_client([call("slow"), say("Here it is.")], way="socket", tools=[slow]) as http:
        path = await http.create_conversation()
        chat = asyncio.ensure_future(http.post(f"{path}/chat", {"content": "go"}))
        await started.wait()
        chat.cancel()
        await asyncio.wait([chat])
        go_on.set()
        assert (await http.read_until_done(path))[-1][1]["ending"] == "done"
        assert (await http.list_messages(path))[-1]["content"] == "Here it is."


@pytest.mark.proves("004.errors-as-tool-response")
async def test_a_tool_that_fails_is_told_to_the_model_as_json() -> None:
    async with open_api_client(
        [call("list_directory", path="/secret"), say("I may not.")], tools=[list_directory]
    ) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "look"})
        result_content = json.loads((await http.list_messages(path))[2]["content"])
        assert (result_content["ok"], result_content["error_type"]) == (
            False,
            "execution_error",
        ) and "/secret" in result_content["error"]


@pytest.mark.proves("004.chat-limit-10")
async def test_after_ten_tool_turns_the_caller_is_told_in_their_language() -> None:
    def always(request: ModelRequest) -> Turn:
        assert request.turn <= 10
        return call("list_directory", path="/")

    async with open_api_client(always, tools=[list_directory]) as http:
        path = await http.create_conversation()
        status, answer, _ = await http.send_request("POST", f"{path}/chat", {"content": "go"}, accept_language="de-DE")
        assert (status, answer["status"], answer["detail"]) == (200, "limit", "turns_per_request")
        assert answer["assistant_message"]["content"].startswith("Das hat leider zu viele Schritte")
        assert (await http.list_messages(path))[-1] == answer["assistant_message"]
        assert sum(message["role"] == "tool" for message in await http.list_messages(path)) == 10


@pytest.mark.parametrize("limits", [None, Limits(turns_per_request=2)])
async def test_the_turns_of_one_conversation_can_be_fewer(limits: Limits | None) -> None:

    looking = call("list_directory", path="/")
    settings = Settings(limits=limits)
    async with open_api_client([looking, looking], tools=[list_directory], default_settings=settings) as http:
        path = await (http.create_conversation() if limits else http.create_conversation(max_turns=2))
        assert (await http.post(f"{path}/chat", {"content": "go"}))["status"] == "limit"
        assert sum(message["role"] == "tool" for message in await http.list_messages(path)) == 2


@pytest.mark.proves("004.chat-saves-user-message")
async def test_a_model_that_fails_is_a_502_with_the_reason_and_the_next_message_works() -> None:
    async with open_api_client([fail("no answer from the provider", "overloaded"), say("Here I am.")]) as http:
        path = await http.create_conversation()
        failed = await http.post(f"{path}/chat", {"content": "go"}, expect=502)
        assert (failed["error_type"], failed["error"]) == ("model_error", "no answer from the provider")
        assert failed["details"]["cause"] == "overloaded"
        assert [message["content"] for message in await http.list_messages(path)] == [
            "go"
        ]  # it was kept before anything else
        run = await http.get(f"{path}/runs/{failed['details']['run_id']}")
        assert run["run"]["ending"] == "failed"
        assert (await http.post(f"{path}/chat", {"content": "again"}))["assistant_message"]["content"] == "Here I am."


@both_ways
async def test_a_run_that_waits_says_for_what_and_the_next_message_waits_in_line(way: str) -> None:

    script = [call("delete_file", path="/docs/API.md"), say("gone"), say("nothing")]
    async with open_api_client(script, way=way, tools=[delete_file]) as http:
        path = await http.create_conversation()
        waiting = await http.post(f"{path}/chat", {"content": "delete it"}, expect=202)
        (waiting_call,) = waiting["waiting"]
        assert waiting["status"] == "waiting"
        assert waiting_call == {
            "call_id": waiting_call["call_id"],
            "name": "delete_file",
            "arguments": {"path": "/docs/API.md"},
            "for": "approval",
        }
        assert (await http.get(path))["conversation"]["status"] == "waiting"
        queued = await http.post(f"{path}/chat", {"content": "and then?"}, expect=202)
        assert (queued["status"], queued["user_message"]["content"]) == ("queued", "and then?")
        await http.post(f"{path}/calls/{waiting_call['call_id']}/approve")
        received = await http.read_until_done(path)
        received += await http.read_until_done(path, received[-1][0])
        assert [event["run_id"] for _, event in received if is_over(event)] == [waiting["run_id"], queued["run_id"]]
        assert [message["content"] for message in await http.list_messages(path) if message["role"] == "user"] == [
            "delete it",
            "and then?",
        ]


async def test_an_interrupt_stops_the_run_in_front() -> None:
    async with open_api_client([call("delete_file", path="/"), say("as you wish")], tools=[delete_file]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "delete it"}, expect=202)
        answer = await http.post(f"{path}/chat", {"content": "never mind", "interrupt": True})
        assert answer["assistant_message"]["content"] == "as you wish"
        result_content = json.loads((await http.list_messages(path))[2]["content"])
        assert result_content["error_type"] == "cancelled"


@both_ways
async def test_a_run_can_be_stopped_and_the_conversation_goes_on(way: str) -> None:
    started = asyncio.Event()

    @tool
    async def forever() -> None:
        """Never ends by itself."""
        started.set()
        await asyncio.Event().wait()

    async with open_api_client([call("forever"), say("here")], way=way, tools=[forever]) as http:
        path = await http.create_conversation()
        assert (await http.post(f"{path}/cancel", expect=409))["error_type"] == "conflict"
        chat = asyncio.ensure_future(http.post(f"{path}/chat", {"content": "go"}))
        await started.wait()
        await http.post(f"{path}/cancel")
        answer = await chat
        assert (answer["status"], answer["assistant_message"]) == ("cancelled", None)
        assert json.loads((await http.list_messages(path))[-1]["content"])["error_type"] == "cancelled"
        await http.post(f"{path}/cancel", expect=409)
        assert (await http.post(f"{path}/chat", {"content": "go on"}))["status"] == "done"


async def test_one_call_can_be_stopped_and_the_run_goes_on() -> None:
    started = asyncio.Event()

    @tool
    async def forever() -> None:
        """Never ends by itself."""
        started.set()
        await asyncio.Event().wait()

    async with open_api_client([call("forever"), say("then not")], tools=[forever]) as http:
        path = await http.create_conversation()
        chat = asyncio.ensure_future(http.post(f"{path}/chat", {"content": "go"}))
        async with aclosing(http.stream_events(f"{path}/events")) as events:
            async for _, event in events:
                if event["type"] == "tool.status":
                    await http.post(f"{path}/cancel", {"call_id": event["call_id"]})
                    break
        assert (await chat)["assistant_message"]["content"] == "then not"
        await http.post(f"{path}/cancel", {"call_id": "call_x"}, expect=409)


@pytest.mark.proves("004.timeout-configurable")
async def test_a_tool_that_takes_longer_than_its_timeout_is_given_up() -> None:
    @tool(timeout_s=0.05)
    async def forever() -> None:
        """Never ends by itself."""
        await asyncio.Event().wait()

    async with open_api_client([call("forever"), say("too slow")], tools=[forever]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "go"})
        result_content = json.loads((await http.list_messages(path))[2]["content"])
        assert (result_content["error_type"], result_content["details"]) == ("timeout", {"timeout_s": 0.05})


async def test_a_run_that_takes_too_long_is_ended_and_answered() -> None:
    @tool
    async def forever() -> None:
        """Never ends by itself."""
        await asyncio.Event().wait()

    async with open_api_client([call("forever")], tools=[forever], limits=Limits(run_seconds=0.1)) as http:
        path = await http.create_conversation()
        answer = await http.post(f"{path}/chat", {"content": "go"})
        assert (answer["status"], answer["detail"]) == ("limit", "run_seconds")
        assert answer["assistant_message"]["content"].startswith("Sorry")


@both_ways
async def test_a_hundred_posts_at_once_are_queued_or_refused_and_never_interleaved(way: str) -> None:
    async with open_api_client(echo, way=way) as http:
        path = await http.create_conversation()
        answers = await asyncio.gather(
            *(http.send_request("POST", f"{path}/chat", {"content": f"number {number}"}) for number in range(100))
        )
        assert {status for status, _, _ in answers} <= {200, 409}
        refused = [answer for status, answer, _ in answers if status == 409]
        assert all(refusal["error_type"] == "conflict" and "wait" in refusal["error"] for refusal in refused)
        done = [answer for status, answer, _ in answers if status == 200]
        assert len(done) >= 17
        for done_event in done:
            assert done_event["assistant_message"]["content"] == f"you said {done_event['user_message']['content']}"
        messages = await http.list_messages(path)
        assert len(messages) == 2 * len(done)
        for asked, answered in zip(messages[::2], messages[1::2], strict=True):
            assert answered["content"] == f"you said {asked['content']}"


@both_ways
async def test_what_is_left_of_the_rate_is_told_with_every_answer_that_starts_a_run(way: str) -> None:
    async with open_api_client(echo, way=way, keys=[build_key("ann"), build_key("bob")], requests_per_minute=3) as http:
        ann = http.with_key("ann")
        path = await ann.create_conversation()
        for left in ("2", "1", "0"):
            status, _, headers = await ann.send_request("POST", f"{path}/chat", {"content": "x"})
            assert (status, headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == (200, "3", left)
            assert int(headers["x-ratelimit-reset"]) <= 60
        for _ in range(2):
            status, reply, headers = await ann.send_request("POST", f"{path}/chat", {"content": "x"})
            assert (status, reply["error_type"]) == (429, "rate_limited")
            assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("3", "0")
            assert 1 <= int(headers["retry-after"]) <= 20 and headers["x-ratelimit-reset"] == headers["retry-after"]
            assert f"come again in {headers['retry-after']} s" in reply["error"]
        status, _, headers = await ann.send_request("GET", path)
        assert status == 200 and "x-ratelimit-limit" not in headers
        assert len(await ann.list_messages(path)) == 6
        await http.with_key("bob").create_conversation()


async def test_a_tool_can_be_forced_or_forbidden_for_one_message() -> None:
    model = Scripted([say("a"), call("list_directory", path="/"), say("b")])
    async with open_api_client(model, tools=[list_directory]) as http:
        path = await http.create_conversation()
        await http.post(f"{path}/chat", {"content": "x", "tool_choice": "none"})
        await http.post(f"{path}/chat", {"content": "x", "tool_choice": "list_directory"})
        await http.post(f"{path}/chat", {"content": "x", "tool_choice": "nope"}, expect=422)
        assert [request.tool_choice for request in model.requests] == ["none", "list_directory", "auto"]


async def test_a_summary_counts_among_the_tokens_of_the_run_that_needed_it() -> None:
    words = "word " * 1000

    def script(request: ModelRequest) -> Turn:
        last = request.history[-1]
        if isinstance(last, UserMessage) and last.text == SUMMARY_PROMPT:
            return Turn(text=("Words.",), usage=Usage(input_tokens=700, output_tokens=7))
        return Turn(text=(words,), usage=Usage(output_tokens=1))

    async with open_api_client(script, windows={"given": 10_000}) as http:
        path = await http.create_conversation()
        spent = [(await http.post(f"{path}/chat", {"content": words}))["token_count"] for _ in range(4)]
        assert spent == [1, 1, 1, 708]
