"""`@ag-ui/client`, unchanged, against `/ag-ui`: the current version, and the last one before 1.0."""

import asyncio
from pathlib import Path

import pytest

from page.mortal import open_killable_server
from page.site import HOLD
from real_servers import find_node, install_npm_package
from surfaces.ag_ui.real_clients.agents import CAMERA, Agent, AgentProcess, done, serve_script
from surfaces.api_client import Json
from toolyard.core.items import UserMessage
from toolyard.testing import call, fail, say, together


@pytest.fixture(params=["current", "earlier"])
def client(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_texts_are_streamed_and_remembered(process: AgentProcess, client: str) -> None:
    async with serve_script(process, [say("Hi ", "there."), say("Good", "bye.")]) as served:
        agent = await served.open_agent(client=client)
        first, second = await agent.run("Hello"), await agent.run("Bye")
    assert second.list_messages() == ["user: Hello", "assistant: Hi there.", "user: Bye", "assistant: Goodbye."]
    assert (first.outcome, first.error, second.error) == ("success", "", "")
    assert first.list_types().count("TEXT_MESSAGE_CONTENT") == 2
    assert "MESSAGES_SNAPSHOT" not in second.list_types()  # the client has them already


async def test_two_tools_run_in_parallel(process: AgentProcess, client: str) -> None:
    calls = together(call("add_to_groceries", item="milk"), call("add_to_groceries", item="eggs"))
    async with serve_script(process, [calls, say("Added both."), say("Welcome.")]) as served:
        agent = await served.open_agent(client=client)
        answer = await agent.run("Add milk and eggs")
        last = await agent.run("Thanks")
    assert sorted(done) == ["eggs", "milk"]
    asked, *results, said = answer.list_messages()[1:]
    assert asked == 'assistant: add_to_groceries{"item":"milk"} add_to_groceries{"item":"eggs"}'
    assert sorted(results) == ["tool: added eggs", "tool: added milk"]
    assert (said, last.text) == ("assistant: Added both.", "Welcome.")
    assert "MESSAGES_SNAPSHOT" not in last.list_types()


@pytest.mark.parametrize(
    ("payload", "effects", "result"),
    [
        ({"approved": True}, ["ordered milk"], "ordered milk"),
        ({"approved": True, "editedArgs": {"item": "bread"}}, ["ordered bread"], "ordered bread"),
        ({"approved": False, "reason": "too dear"}, [], "too dear"),
        (None, [], "denied_by_user"),
    ],
    ids=["granted", "edited", "denied", "cancelled"],
)
async def test_an_approval_is_an_interrupt(
    process: AgentProcess, client: str, payload: object, effects: list[str], result: str
) -> None:
    async with serve_script(process, [call("order", item="milk"), say("That is that.")]) as served:
        agent = await served.open_agent(client=client)
        asked = await agent.run("Order milk")
        assert (asked.outcome, done) == ("interrupt", [])
        (interrupt,) = asked.interrupts
        assert interrupt["reason"] == "tool_call" and interrupt["metadata"]["arguments"] == {"item": "milk"}
        answer = await agent.resume([interrupt], payload)
    assert (answer.outcome, answer.text, answer.interrupts, done) == ("success", "That is that.", [], effects)
    (tool_message,) = [message for message in answer.messages if message["role"] == "tool"]
    assert result in tool_message["content"]


async def test_several_calls_inside_a_program_are_interrupts(process: AgentProcess, client: str) -> None:
    code = "import asyncio\nawait asyncio.gather(order(item='milk'), order(item='tea'))"
    async with serve_script(process, [call("run_code", code=code), say("That is that.")], code=True) as served:
        agent = await served.open_agent(client=client)
        asked = await agent.run("Go")
        assert asked.outcome == "interrupt"
        assert [one["metadata"]["arguments"] for one in asked.interrupts] == [{"item": "milk"}, {"item": "tea"}]
        answer = await agent.resume(asked.interrupts, {"approved": True})
    assert (answer.outcome, answer.text, answer.interrupts) == ("success", "That is that.", [])
    assert sorted(done) == ["ordered milk", "ordered tea"]
    (tool_message,) = [message for message in answer.messages if message["role"] == "tool"]
    assert tool_message["content"] == '{"value":["ordered milk","ordered tea"]}'


async def test_a_tool_of_the_front_end_is_handed_out_and_its_result_comes_back(
    process: AgentProcess, client: str
) -> None:
    calls = together(call("take_photo", of="fridge"), call("add_to_groceries", item="milk"))
    async with serve_script(process, [calls, say("A full fridge.")]) as served:
        agent = await served.open_agent(client=client)
        asked = await agent.run("What is in the fridge?", tools=[CAMERA])
        (photo,) = [call for call in asked.messages[1]["toolCalls"] if call["function"]["name"] == "take_photo"]
        assert asked.outcome == "success"
        assert asked.pending == ([photo["id"]] if client == "current" else [])
        answer = await agent.deliver(photo["id"], "milk and eggs", tools=[CAMERA])
    assert (answer.text, done) == ("A full fridge.", ["milk"])
    assert answer.list_messages()[2:] == ["tool: added milk", "tool: milk and eggs", "assistant: A full fridge."]


async def test_an_approval_and_a_tool_of_the_front_end_are_asked_for_together(process: AgentProcess) -> None:
    calls = together(call("take_photo", of="fridge"), call("order", item="milk"))
    async with serve_script(process, [calls, say("All done.")]) as served:
        agent = await served.open_agent()
        asked = await agent.run("Go", tools=[CAMERA])
        assert asked.outcome == "interrupt"
        halfway = await agent.resume(asked.interrupts, {"approved": True}, tools=[CAMERA])
        (photo,) = halfway.pending
        answer = await agent.deliver(photo, "a fridge", tools=[CAMERA])
    assert (answer.text, done) == ("All done.", ["ordered milk"])


async def test_a_run_that_fails_is_an_error_and_the_thread_goes_on(process: AgentProcess, client: str) -> None:
    async with serve_script(process, [fail("the model is out"), say("Back again.")]) as served:
        agent = await served.open_agent(client=client)
        failed = await agent.run("Hello")
        answer = await agent.run("And now?")
    assert "the model is out" in failed.error
    assert (answer.text, answer.error) == ("Back again.", "")


async def test_an_aborted_request_does_not_stop_its_run_which_the_next_one_follows(process: AgentProcess) -> None:
    async with serve_script(process, [say(*["word "] * 50)]) as served:
        agent = await served.open_agent()
        await agent.run("Tell me", abortAt="TEXT_MESSAGE_CONTENT")
        answer = await agent.run()
    assert len(served.model.requests) == 1
    assert answer.list_messages() == ["user: Tell me", f"assistant: {'word ' * 50}"]


async def test_an_edited_message_replaces_what_followed_it(process: AgentProcess) -> None:
    async with serve_script(process, [say("Hi."), say("Red."), say("Blue."), say("Bye.")]) as served:
        agent = await served.open_agent()
        await agent.run("Hello")
        before = await agent.run("My colour is red", message_id="colour")
        await agent.change(messages=before.messages[:2])
        edited = await agent.run("My colour is blue", message_id="colour")
        last = await agent.run("Bye")
    expected = ["user: Hello", "assistant: Hi.", "user: My colour is blue", "assistant: Blue."]
    assert edited.list_messages() == expected
    assert last.list_messages() == [*expected, "user: Bye", "assistant: Bye."]
    questions = [item.text for item in served.model.requests[-1].history if isinstance(item, UserMessage)]
    assert questions == ["Hello", "My colour is blue", "Bye"]


async def test_a_message_is_answered_again_only_if_that_is_asked_for(process: AgentProcess) -> None:
    async with serve_script(process, [say("One."), say("Two.")]) as served:
        agent = await served.open_agent()
        first = await agent.run("Count")
        await agent.change(messages=first.messages[:1])
        followed = await agent.run()
        await agent.change(messages=first.messages[:1])
        again = await agent.run(forwardedProps={"toolyard": {"regenerate": True}})
    assert followed.list_messages() == ["user: Count", "assistant: One."]
    assert again.list_messages() == ["user: Count", "assistant: Two."]


async def test_a_second_tab_follows_the_run_of_the_first(process: AgentProcess, client: str) -> None:
    async with serve_script(process, [call("order", item="milk"), say("Ordered.")]) as served:
        first, second = await served.open_agent(client=client), await served.open_agent(client=client)
        asked = await first.run("Order milk", message_id="m1")
        seen = await second.run("Order milk", message_id="m1")
        assert [interrupt["id"] for interrupt in seen.interrupts] == [asked.interrupts[0]["id"]]
        answers = await asyncio.gather(
            second.resume(seen.interrupts, {"approved": True}), first.resume(asked.interrupts, {"approved": True})
        )
    assert [(answer.text, answer.error) for answer in answers] == [("Ordered.", "")] * 2
    assert (done, len(served.model.requests)) == (["ordered milk"], 2)


async def test_a_tab_that_is_behind_is_brought_up_to_date(process: AgentProcess) -> None:
    async with serve_script(process, [say("Hi."), say("You too.")]) as served:
        first, second = await served.open_agent(), await served.open_agent()
        await first.run("Hello")
        answer = await second.run("Good day")
    assert answer.list_messages() == ["user: Hello", "assistant: Hi.", "user: Good day", "assistant: You too."]


async def test_state_reaches_tools_and_comes_back_unchanged(process: AgentProcess) -> None:
    async with serve_script(process, [say("Hi.")]) as served:
        agent = await served.open_agent()
        await agent.change(state={"cart": ["milk"]})
        answer = await agent.run("Hello", context=[{"description": "the page", "value": "/cart"}])
    assert answer.state == {"cart": ["milk"]}
    assert answer.list_types().count("STATE_SNAPSHOT") == 1 and "STATE_DELTA" not in answer.list_types()
    assert "/cart" in served.model.requests[-1].system and "milk" in served.model.requests[-1].system


@pytest.mark.parametrize(
    ("message", "parameters", "error"),
    [
        ({"content": [{"type": "audio", "source": {"type": "url", "value": "https://a.b/c"}}]}, {}, "audio and video"),
        ({"content": "Hi"}, {"resume": [{"interruptId": "call_9", "status": "resolved", "payload": True}]}, "call_9"),
    ],
    ids=["a foreign part", "an unknown interrupt"],
)
async def test_bad_input_is_a_clear_error_and_nothing_is_lost(
    process: AgentProcess, message: dict[str, object], parameters: dict[str, Json], error: str
) -> None:
    async with serve_script(process, [say("Hello.")]) as served:
        agent = await served.open_agent()
        await agent.run("Hi there", message_id="m1")
        failed = await agent.run(message={"id": "m2", "role": "user", **message}, **parameters)
        assert error in failed.error
        followed = await agent.run(message={"id": "m1", "role": "user", "content": "Hi there"})
    assert followed.text == "Hello."


async def test_a_decision_that_contradicts_an_earlier_one_is_refused(process: AgentProcess) -> None:
    async with serve_script(process, [call("order", item="milk"), say("Ordered.")]) as served:
        agent = await served.open_agent()
        asked = await agent.run("Order milk")
        await agent.resume(asked.interrupts, {"approved": True})
        refused = await agent.resume(asked.interrupts, {"approved": False})
        unknown = await agent.deliver("call_nowhere", "a result")
    assert "was approved before" in refused.error
    assert "there is no call 'call_nowhere'" in unknown.error
    assert done == ["ordered milk"]


async def test_after_a_restart_in_the_middle_of_a_turn_the_next_request_follows(
    process: AgentProcess, tmp_path: Path
) -> None:
    with open_killable_server(tmp_path) as server:
        agent = Agent(process, server.url, "thread-1", "current")
        await agent.open()
        running = asyncio.create_task(agent.run("write it down"))
        await agent.wait_for_text("It is written: ")
        server.kill()
        broken = await running
        assert broken.error and broken.text == "It is written: "
        server.start()
        server.resume()
        answer = await agent.run()
        assert (answer.error, answer.list_messages()) == (
            "",
            [
                "user: write it down",
                'assistant: write{"text":"milk"}',
                "tool: written",
                f"assistant: It is written: {HOLD}milk.",
            ],
        )
        assert server.written_text == "milk\n"


async def test_what_the_page_shows_gets_an_answer(process: AgentProcess, tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "ag-ui.md").read_text("utf-8")
    code = page.partition("```js\n")[2].partition("```")[0]
    (tmp_path / "node_modules").symlink_to(install_npm_package("@ag-ui/client").parents[1])
    async with serve_script(process, [say("Milk is on the list.")]) as served:
        (tmp_path / "example.mjs").write_text(code.replace("http://127.0.0.1:8080", served.url))
        command = [find_node()[0], "example.mjs"]
        example = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=-1)
        out, _ = await example.communicate()
    assert out.decode() == "Milk is on the list.\n"
