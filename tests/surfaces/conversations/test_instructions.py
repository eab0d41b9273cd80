"""The callers' own instructions: sent to the model as their words, recorded with the run, of one user alone."""

from surfaces.api_client import build_key, build_yard, connect_api_client, open_api_client
from toolyard.core.conversation.context.notes import Note
from toolyard.core.conversation.events import RunQueued, TurnEnded
from toolyard.core.conversation.settings import Settings
from toolyard.core.items import Usage
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.prices import Price
from toolyard.engine.access.instructions import MAX_INSTRUCTION_BYTES
from toolyard.engine.loop.history_summary import SUMMARY_PROMPT
from toolyard.engine.loop.turn import INSTRUCTIONS_HEADER, build_system_text
from toolyard.testing import Scripted, Turn, say


async def test_instructions_are_sent_apart_from_the_servers_words_and_are_no_part_of_the_history() -> None:
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
        messages = await http.get(f"{path}/messages")
    assert {request.system for request in model.requests} == {"Be polite.\n\nYou sell tea."}
    own = f"{INSTRUCTIONS_HEADER}\nAnswer in rhymes."
    assert [request.instructions for request in model.requests] == ["", own, ""]
    assert "rhymes" not in f"{list(model.requests[-1].history)} {messages}"
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
    assert "Ann" not in request.system + request.instructions


async def test_instructions_have_a_bound_in_bytes() -> None:
    async with open_api_client([]) as http:
        await http.put("/me/instructions", {"text": "é" * (MAX_INSTRUCTION_BYTES // 2)})
        refused = await http.put("/me/instructions", {"text": "é" * (MAX_INSTRUCTION_BYTES // 2) + "x"}, expect=422)
        assert "8,000 bytes" in refused["error"]
        assert len((await http.get("/me/instructions"))["text"]) == MAX_INSTRUCTION_BYTES // 2


async def test_a_summary_is_asked_for_with_the_instructions_so_that_the_providers_cache_has_its_beginning() -> None:
    def script(request: ModelRequest) -> Turn:
        asks = SUMMARY_PROMPT in str(request.history[-1])
        return say("They spoke.") if asks else Turn(text=("word " * 1_000,), usage=Usage())

    model = Scripted(script)
    async with build_yard(model, windows={"given": 10_000}) as yard, connect_api_client(yard) as http:
        await http.put("/me/instructions", {"text": "Answer in rhymes."})
        path = await http.create_conversation()
        for _ in range(8):
            await http.post(f"{path}/chat", {"content": "word " * 1_000})
    requests = model.requests
    assert any(SUMMARY_PROMPT in str(request.history[-1]) for request in requests)
    assert {request.instructions for request in requests} == {f"{INSTRUCTIONS_HEADER}\nAnswer in rhymes."}


async def test_instructions_count_as_input_where_the_provider_counts_nothing() -> None:
    costs: list[int] = []
    for text in ("", "measure in ells " * 400):
        model = Scripted([Turn(text=("ok",), usage=Usage())])
        prices = {"given": Price(input=1.0, output=1.0)}
        async with build_yard(model, prices=prices) as yard, connect_api_client(yard) as http:
            await http.put("/me/instructions", {"text": text})
            path = await http.create_conversation()
            await http.post(f"{path}/chat", {"content": "hi"})
            entries = await yard.service.conversations.read_entries(path.rpartition("/")[2])
        (cost,) = [entry.event.cost for entry in entries if isinstance(entry.event, TurnEnded)]
        assert cost is not None
        costs.append(cost.micros)
    assert costs[1] - costs[0] > 1_000


def test_the_parts_of_the_system_text_have_an_order() -> None:
    settings = Settings(system_prompt="prompt", context={"n": Note(name="shop", text="open")})
    text = build_system_text("base", "division", settings, "tools")
    assert text.split("\n\n") == ["base", "division", "prompt", "shop: open", "tools"]
