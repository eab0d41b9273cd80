"""The callers' own instructions: shown to the model as their words, recorded with the run, of one user alone."""

from surfaces.api_client import build_key, build_yard, connect_api_client, open_api_client
from toolyard.core.conversation.context.notes import Note
from toolyard.core.conversation.events import RunQueued
from toolyard.core.conversation.settings import Settings
from toolyard.engine.access.instructions import MAX_INSTRUCTION_BYTES
from toolyard.engine.loop.turn import INSTRUCTIONS_HEADER, build_system_text
from toolyard.testing import Scripted, say


async def test_instructions_are_sent_after_the_servers_words_and_marked_as_the_users() -> None:
    model = Scripted(lambda _: say("ok"))
    yard = build_yard(model, system_prompt="Be polite.")
    async with yard, connect_api_client(yard) as http:
        path = await http.create_conversation("Test", system_prompt="You sell tea.")
        await http.post(f"{path}/chat", {"content": "one"})
        assert (await http.put("/me/instructions", {"text": "  Answer in rhymes.\n"}))["text"] == "Answer in rhymes."
        assert (await http.get("/me/instructions"))["text"] == "Answer in rhymes."
        await http.post(f"{path}/chat", {"content": "two"})
        await http.put("/me/instructions", {"text": ""})
        await http.post(f"{path}/chat", {"content": "three"})
        entries = await yard.service.conversations.read_entries(path.rpartition("/")[2])
    plain, own, after = (request.system for request in model.requests)
    assert plain == after == "Be polite.\n\nYou sell tea."
    assert own == f"{plain}\n\n{INSTRUCTIONS_HEADER}\n\nAnswer in rhymes."
    recorded = [entry.event.instructions for entry in entries if isinstance(entry.event, RunQueued)]
    assert recorded == ["", "Answer in rhymes.", ""]


async def test_instructions_are_of_one_user() -> None:
    model = Scripted(lambda _: say("ok"))
    keys = [build_key("ann"), build_key("bob")]
    async with open_api_client(model, keys=keys) as anybody:
        ann, bob = anybody.with_key("ann"), anybody.with_key("bob")
        await ann.put("/me/instructions", {"text": "Only for Ann."})
        assert (await bob.get("/me/instructions"))["text"] == ""
        path = await bob.create_conversation()
        await bob.post(f"{path}/chat", {"content": "hello"})
        await anybody.get("/me/instructions", expect=401)
    (request,) = model.requests
    assert "Ann" not in request.system


async def test_instructions_have_a_bound_in_bytes() -> None:
    async with open_api_client([]) as http:
        await http.put("/me/instructions", {"text": "é" * (MAX_INSTRUCTION_BYTES // 2)})
        refused = await http.put("/me/instructions", {"text": "é" * (MAX_INSTRUCTION_BYTES // 2) + "x"}, expect=422)
        assert "8,000 bytes" in refused["error"]
        assert len((await http.get("/me/instructions"))["text"]) == MAX_INSTRUCTION_BYTES // 2


def test_instructions_come_after_everything_else() -> None:
    settings = Settings(system_prompt="prompt", context={"n": Note(name="shop", text="open")})
    text = build_system_text("base", "division", settings, "tools", "mine")
    assert text.split("\n\n") == ["base", "division", "prompt", "shop: open", "tools", INSTRUCTIONS_HEADER, "mine"]
