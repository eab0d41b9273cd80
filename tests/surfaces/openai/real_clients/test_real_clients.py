"""Other people's clients, unchanged, against `/v1`: each scenario with each client and each API that it speaks."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import pytest

from surfaces.openai.clients import Served, list_exchange, serve_script
from surfaces.openai.real_clients.processes import ClientAnswer, ClientOrder, ClientProcess
from surfaces.openai.real_clients.test_frameworks import RUN_BY_DRIVERS, check_program
from surfaces.openai.real_clients.test_page import ANSWER, PYTHON_CLIENTS, read_snippet
from toolyard import Limits, tool
from toolyard.core.items import ModelText, UserMessage
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import Script, call, fail, say, together

PACKAGES = ["openai-js", "openai-agents", "pydantic-ai", "langchain-openai", "litellm"]
NOT_FOUND = {"pydantic-ai": "ModelNotFoundError", "langchain-openai": "OpenAIModelNotFoundError"}
"""What a client raises for a model that does not exist, where that is not OpenAI's own NotFoundError."""
FAILED = {"pydantic-ai": "ModelServerError", "langchain-openai": "OpenAIAPIError", "litellm": "BadGatewayError"}
"""What a client raises for a run that fails, where that is not OpenAI's own InternalServerError."""
SHOWS_NO_FINISH = {"openai-agents"}
"""The clients that do not say why an answer ended."""
added: list[str] = []


@tool
def add_to_groceries(item: str) -> str:
    """Add an item to the groceries."""
    added.append(item)
    return f"added {item}"


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    added.append(f"ordered {item}")
    return f"ordered {item}"


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


@pytest.fixture(params=["chat", "responses"])
def api(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


@asynccontextmanager
async def serve(
    client: ClientProcess,
    api: str,
    script: Script,
    *,
    model: str = "default",
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> AsyncGenerator[Served, None]:
    """Serve a yard with the tools above, and begin a conversation of the client with it."""
    async with serve_script(script, [add_to_groceries, order], limits=limits) as served:
        await client.open(served.url, api, model)
        yield served


def list_texts(served: Served) -> list[str]:
    """Return the texts of the last model request."""
    history = served.model.requests[-1].history
    return [item.text for item in history if isinstance(item, UserMessage | ModelText)]


def assert_succeeded(answer: ClientAnswer) -> None:
    assert (answer.error, answer.message) == ("", "")


@pytest.mark.parametrize("package", PYTHON_CLIENTS, indirect=True)
async def test_what_the_page_shows_of_a_client_gets_an_answer(client: ClientProcess, package: str) -> None:
    async with serve_script([say(ANSWER)]) as served:
        program = read_snippet(PYTHON_CLIENTS[package], "python", served.url)
        assert await client.run_program(program) == f"{ANSWER}\n"


@pytest.mark.parametrize("package", RUN_BY_DRIVERS, indirect=True)
async def test_what_the_page_on_frameworks_shows_of_a_client_gets_an_answer(
    client: ClientProcess, package: str
) -> None:
    await check_program(RUN_BY_DRIVERS[package], client.run_program)


async def test_texts_are_answered_and_remembered(client: ClientProcess, api: str, streamed: bool) -> None:
    async with serve(client, api, [say("Hi ", "there."), say("Good", "bye.")]) as served:
        first = await client.ask("Hello", streamed=streamed)
        second = await client.ask("Bye", streamed=streamed)
    assert [first.text, second.text] == ["Hi there.", "Goodbye."], (first, second)
    assert (first.pieces > 1) == streamed
    assert first.finish in ("stop", "")
    assert list_texts(served) == ["Hello", "Hi there.", "Bye"]


async def test_a_tool_of_the_server_runs_inside(client: ClientProcess, api: str, streamed: bool) -> None:
    script = [call("add_to_groceries", item="milk"), say("Added."), say("Welcome.")]
    async with serve(client, api, script) as served:
        first = await client.ask("Add milk", streamed=streamed)
        second = await client.ask("Thanks", streamed=streamed)
    assert [first.text, second.text] == ["Added.", "Welcome."], (first, second)
    assert added == ["milk"]
    assert list_texts(served)[-3:] == ["Add milk", "Added.", "Thanks"]


async def test_a_tool_of_the_client_is_called_and_its_result_comes_back(
    client: ClientProcess, api: str, streamed: bool
) -> None:
    async with serve(client, api, [call("take_photo", of="fridge"), say("Here you are.")]) as served:
        answer = await client.ask(streamed=streamed, has_tool=True)
    assert_succeeded(answer)
    assert (answer.text, answer.photos) == ("Here you are.", ["fridge"])
    assert list_exchange(served.model.requests[-1].history) == [
        "take_photo['fridge']",
        "take_photo=a photo of fridge",
    ]


async def test_parallel_calls_of_the_client_and_the_server_each_run_once(
    client: ClientProcess, api: str, streamed: bool
) -> None:
    script = [
        call("add_to_groceries", item="milk"),
        together(call("take_photo", of="a"), call("add_to_groceries", item="eggs"), call("take_photo", of="b")),
        say("Here you are."),
    ]
    async with serve(client, api, script) as served:
        answer = await client.ask(streamed=streamed, has_tool=True)
    assert_succeeded(answer)
    assert (answer.text, sorted(answer.photos), added) == ("Here you are.", ["a", "b"], ["milk", "eggs"])
    # Clients that send items back put those of one turn in an order of their own.
    assert sorted(list_exchange(served.model.requests[-1].history)) == [
        "add_to_groceries=added eggs",
        "add_to_groceries=added milk",
        "add_to_groceries['eggs']",
        "add_to_groceries['milk']",
        "take_photo=a photo of a",
        "take_photo=a photo of b",
        "take_photo['a']",
        "take_photo['b']",
    ]


async def test_structured_output_comes_after_a_tool_of_the_server(client: ClientProcess, api: str) -> None:
    script = [
        together(say("Let me look."), call("add_to_groceries", item="milk")),
        say('{"item": "milk", "count": 2}'),
    ]
    async with serve(client, api, script):
        answer = await client.ask(wants_order=True)
    assert_succeeded(answer)
    assert (answer.order, added) == (ClientOrder("milk", 2), ["milk"])


async def test_an_unknown_model_is_the_clients_own_exception(
    client: ClientProcess, api: str, streamed: bool, package: str
) -> None:
    async with serve(client, api, [], model="gpt-99"):
        answer = await client.ask(streamed=streamed)
    assert answer.error == NOT_FOUND.get(package, "NotFoundError"), answer
    assert "'gpt-99' is not one of" in answer.message


async def test_a_run_that_fails_is_the_clients_own_exception(client: ClientProcess, api: str, package: str) -> None:
    async with serve(client, api, [fail("the model is out")]):
        answer = await client.ask()
    assert answer.error == FAILED.get(package, "InternalServerError"), answer
    assert "the model is out" in answer.message


async def test_a_stream_of_a_run_that_fails_is_an_exception_as_well(client: ClientProcess, api: str) -> None:
    async with serve(client, api, [fail("the model is out")]):
        answer = await client.ask(streamed=True)
    assert answer.error, answer
    assert "the model is out" in answer.message


async def test_an_answer_at_its_limit_is_cut_off(client: ClientProcess, api: str, streamed: bool, package: str) -> None:
    script = [together(say("One moment."), call("add_to_groceries", item="milk"))]
    async with serve(client, api, script, limits=Limits(turns_per_request=1)):
        answer = await client.ask(streamed=streamed)
    if (package, api) == ("openai-agents", "responses"):  # it takes no incomplete response for an answer
        assert answer.error == "ModelBehaviorError" and "max_output_tokens" in answer.message
        return
    assert_succeeded(answer)
    assert answer.text is not None and "too many steps" in answer.text
    if package not in SHOWS_NO_FINISH:
        assert answer.finish in ("length", "max_output_tokens")


async def test_an_approval_is_a_sentence_until_it_is_decided_or_let_go(
    client: ClientProcess, api: str, streamed: bool
) -> None:
    script = [
        together(say("One moment."), call("add_to_groceries", item="eggs")),
        call("order", item="milk"),
        say("Never mind."),
        call("order", item="milk"),
        say("Ordered."),
        say("You are welcome."),
    ]
    async with serve(client, api, script) as served:
        first = await client.ask("Order milk", streamed=streamed)
        assert_succeeded(first)
        assert first.text is not None and "`order` waits for an approval" in first.text
        let_go = await client.ask("Forget it", streamed=streamed)
        assert let_go.text == "Never mind.", let_go
        again = await client.ask("Order it after all", streamed=streamed)
        assert again.text is not None and "`order` waits for an approval" in again.text
        await approve(served, again.text)
        last = await client.ask("And now?", streamed=streamed)
    assert (last.text, added) == ("You are welcome.", ["eggs", "ordered milk"]), last
    exchange = list_exchange(served.model.requests[-1].history)
    assert exchange[:3] == ["add_to_groceries['eggs']", "add_to_groceries=added eggs", "order['milk']"]
    assert "the user went on" in exchange[3] and exchange[4:] == ["order['milk']", "order=ordered milk"]
    answers = [text for text in list_texts(served) if text.endswith(".") or "approval" in text]
    assert answers == ["One moment.", "Never mind.", "Ordered."]


@pytest.mark.parametrize("package", ["openai-agents"], indirect=True)
async def test_a_hosted_mcp_tool_decides_approvals_by_itself(client: ClientProcess, streamed: bool) -> None:
    script = [together(say("One moment."), call("order", item="milk")), say("Ordered."), say("You are welcome.")]
    async with serve(client, "hosted-mcp", script) as served:
        first = await client.ask("Order milk", streamed=streamed)
        assert_succeeded(first)
        assert (first.text, added) == ("Ordered.", ["ordered milk"])
        second = await client.ask("Thanks", streamed=streamed)
    assert (second.text, added) == ("You are welcome.", ["ordered milk"])
    assert list_texts(served) == ["Order milk", "One moment.", "Ordered.", "Thanks"]
    assert list_exchange(served.model.requests[-1].history) == ["order['milk']", "order=ordered milk"]


async def approve(served: Served, sentence: str) -> None:
    """Approve the call that a sentence links to."""
    conversation, call_id = parse_call_id(sentence.partition("?call=")[2])
    await served.yard.approve(conversation, call_id)
