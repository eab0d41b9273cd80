"""Other people's clients of Anthropic's API, unchanged, against `/v1/messages`."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest

from surfaces.openai.clients import Served, add_to_groceries, added, list_exchange, order, serve_script
from surfaces.openai.real_clients.processes import ClientOrder, ClientProcess
from surfaces.openai.real_clients.test_anthropic_page import ANSWER, PYTHON_CLIENTS, read_snippet
from surfaces.openai.real_clients.test_real_clients import approve, assert_succeeded, list_texts
from toolyard.testing import Script, call, fail, say, together

PACKAGES = ["anthropic", "anthropic-js", "pydantic-ai", "langchain-anthropic", "ai-anthropic-js"]
NOT_FOUND = {
    "pydantic-ai": "ModelNotFoundError",
    "langchain-anthropic": "AnthropicModelNotFoundError",
    "ai-anthropic-js": "APICallError",
}
"""What a client raises for a model that does not exist, where that is not Anthropic's own NotFoundError."""
HAS_OUTPUT_TYPES = [package for package in PACKAGES if package != "pydantic-ai"]
"""The clients that ask for structured output of a model whose name they do not know."""


@pytest.fixture(autouse=True)
def start_with_nothing_added() -> None:
    added.clear()


@pytest.fixture(scope="module")
def processes() -> Generator[dict[str, ClientProcess], None, None]:
    running: dict[str, ClientProcess] = {}
    yield running
    for process in running.values():
        process.close()


# Of the module, so that the tests of a client stand together: fewer workers start it, which takes seconds.
@pytest.fixture(params=PACKAGES, scope="module")
def package(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def client(package: str, processes: dict[str, ClientProcess]) -> ClientProcess:
    process = processes.get(package)
    if process is None or not process.is_running:
        process = processes[package] = ClientProcess(package)
    return process


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


@asynccontextmanager
async def serve(client: ClientProcess, script: Script, *, model: str = "default") -> AsyncGenerator[Served, None]:
    """Serve a yard with two tools, and begin a conversation of the client with it."""
    async with serve_script(script, [add_to_groceries, order]) as served:
        await client.open(served.url, "messages", model)
        yield served


@pytest.mark.parametrize("package", PYTHON_CLIENTS, indirect=True)
async def test_what_the_page_shows_of_a_client_gets_an_answer(client: ClientProcess, package: str) -> None:
    async with serve_script([say(ANSWER)]) as served:
        program = read_snippet(PYTHON_CLIENTS[package], "python", served.url)
        assert await client.run_program(program) == f"{ANSWER}\n"


async def test_texts_are_answered_and_remembered(client: ClientProcess, streamed: bool) -> None:
    async with serve(client, [say("Hi ", "there."), say("Good", "bye.")]) as served:
        first = await client.ask("Hello", streamed=streamed)
        second = await client.ask("Bye", streamed=streamed)
    assert [first.text, second.text] == ["Hi there.", "Goodbye."], (first, second)
    assert (first.pieces > 1) == streamed
    assert first.finish in ("stop", "end_turn")
    assert list_texts(served) == ["Hello", "Hi there.", "Bye"]


async def test_a_tool_of_the_server_runs_inside_and_is_remembered(client: ClientProcess, streamed: bool) -> None:
    script = [call("add_to_groceries", item="milk"), say("Added."), say("Welcome.")]
    async with serve(client, script) as served:
        first = await client.ask("Add milk", streamed=streamed)
        second = await client.ask("Thanks", streamed=streamed)
    assert [first.text, second.text] == ["Added.", "Welcome."], (first, second)
    assert added == ["milk"]
    assert list_texts(served)[-3:] == ["Add milk", "Added.", "Thanks"]
    assert list_exchange(served.model.requests[-1].history) == [
        "add_to_groceries['milk']",
        "add_to_groceries=added milk",
    ]


async def test_parallel_calls_of_the_client_run_and_go_on(client: ClientProcess, streamed: bool) -> None:
    script = [together(call("take_photo", of="a"), call("take_photo", of="b")), say("Here you are.")]
    async with serve(client, script) as served:
        answer = await client.ask(streamed=streamed, has_tool=True)
    assert_succeeded(answer)
    assert (answer.text, sorted(answer.photos)) == ("Here you are.", ["a", "b"])
    assert list_exchange(served.model.requests[-1].history) == [
        "take_photo['a']",
        "take_photo['b']",
        "take_photo=a photo of a",
        "take_photo=a photo of b",
    ]


@pytest.mark.parametrize("package", HAS_OUTPUT_TYPES, indirect=True)
async def test_structured_output_is_parsed(client: ClientProcess) -> None:
    async with serve(client, [say('{"item": "milk", "count": 2}')]):
        answer = await client.ask(wants_order=True)
    assert_succeeded(answer)
    assert answer.order == ClientOrder("milk", 2)


async def test_an_unknown_model_is_the_clients_own_exception(
    client: ClientProcess, streamed: bool, package: str
) -> None:
    async with serve(client, [], model="claude-99"):
        answer = await client.ask(streamed=streamed)
    assert answer.error == NOT_FOUND.get(package, "NotFoundError"), answer
    assert "'claude-99' is not one of" in answer.message


async def test_a_run_that_fails_is_an_exception(client: ClientProcess, streamed: bool) -> None:
    async with serve(client, [fail("the model is out")]):
        answer = await client.ask(streamed=streamed)
    assert answer.error and "the model is out" in answer.message


async def test_an_approval_is_a_sentence_until_it_is_decided_or_let_go(client: ClientProcess, streamed: bool) -> None:
    script = [
        together(say("One moment."), call("add_to_groceries", item="eggs")),
        call("order", item="milk"),
        say("Never mind."),
        call("order", item="milk"),
        say("Ordered."),
        say("You are welcome."),
    ]
    async with serve(client, script) as served:
        first = await client.ask("Order milk", streamed=streamed)
        assert first.text is not None and "`order` waits for an approval" in first.text, first
        let_go = await client.ask("Forget it", streamed=streamed)
        assert let_go.text == "Never mind.", let_go
        again = await client.ask("Order it after all", streamed=streamed)
        assert again.text is not None and "`order` waits for an approval" in again.text
        await approve(served, again.text)
        last = await client.ask("And now?", streamed=streamed)
    assert (last.text, added) == ("You are welcome.", ["eggs", "ordered milk"]), last
