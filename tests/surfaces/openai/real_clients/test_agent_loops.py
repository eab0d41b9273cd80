"""Agents that run their loop in the client, unchanged, against `/v1`: what each sends back is put together again."""

from collections.abc import Generator
from itertools import product
from typing import NamedTuple

import pytest

from surfaces.openai.clients import add_to_groceries, added, list_exchange, serve_script
from surfaces.openai.real_clients.processes import ClientProcess
from toolyard.core.items import ModelText, UserMessage
from toolyard.testing import call, say, together


class AgentCase(NamedTuple):
    """A client, the APIs that it speaks, and the name that the model sees of its tool."""

    package: str
    apis: tuple[str, ...]
    tool: str = "take_photo"


AGENTS = [
    AgentCase("agno", ("chat", "responses")),
    AgentCase("semantic-kernel", ("responses",), "camera-take_photo"),
    AgentCase("openai-agents", ("session",)),
]


@pytest.fixture(scope="module", params=AGENTS, ids=lambda case: case.package)
def case(request: pytest.FixtureRequest) -> AgentCase:
    return request.param


@pytest.fixture(scope="module")
def client(case: AgentCase) -> Generator[ClientProcess, None, None]:
    process = ClientProcess(case.package)
    yield process
    process.close()


@pytest.fixture(scope="module")
def smolagents() -> Generator[ClientProcess, None, None]:
    process = ClientProcess("smolagents")
    yield process
    process.close()


async def test_rounds_of_the_clients_tool_end_in_an_answer_that_the_next_turn_remembers(
    case: AgentCase, client: ClientProcess
) -> None:
    for api, streamed in product(case.apis, (False, True)):
        script = [
            call(case.tool, of="a"),
            together(call(case.tool, of="b"), call("add_to_groceries", item="milk"), call(case.tool, of="c")),
            say("Here ", "you are."),
            say("You are ", "welcome."),
        ]
        async with serve_script(script, [add_to_groceries]) as served:
            await client.open(served.url, api)
            first = await client.ask("Show me", streamed=streamed, has_tool=True)
            assert (first.error, first.message) == ("", "")
            assert (first.text, sorted(first.photos), added) == ("Here you are.", ["a", "b", "c"], ["milk"])
            second = await client.ask("Thanks", streamed=streamed, has_tool=True)
        assert (second.text, second.photos, added) == ("You are welcome.", [], ["milk"]), second
        assert (second.pieces > 1) == streamed
        *_, last_round, next_turn = served.model.requests
        # Clients that send items back put those of one turn in an order of their own.
        assert sorted(list_exchange(last_round.history)) == sorted(
            [*list_exchange_of_photos(case), "add_to_groceries['milk']", "add_to_groceries=added milk"]
        )
        assert set(list_exchange_of_photos(case)) <= set(list_exchange(next_turn.history))
        texts = [item.text for item in next_turn.history if isinstance(item, UserMessage | ModelText)]
        # Semantic Kernel sends the message of the turn again with each round of results.
        assert list(dict.fromkeys(texts)) == ["Show me", "Here you are.", "Thanks"]


def list_exchange_of_photos(case: AgentCase) -> list[str]:
    return [line for of in "abc" for line in (f"{case.tool}['{of}']", f"{case.tool}=a photo of {of}")]


async def test_an_agent_that_requires_a_call_ends_with_its_own_final_answer(smolagents: ClientProcess) -> None:
    for streamed in (False, True):
        script = [
            call("add_to_groceries", item="milk"),
            call("take_photo", of="fridge"),
            call("add_to_groceries", item="eggs"),
            call("final_answer", answer="Here you are."),
        ]
        async with serve_script(script, [add_to_groceries]) as served:
            await smolagents.open(served.url, "chat")
            answer = await smolagents.ask("Show me", streamed=streamed, has_tool=True)
        assert (answer.error, answer.message) == ("", "")
        assert (answer.text, answer.photos, added) == ("Here you are.", ["fridge"], ["milk", "eggs"])
        assert (answer.pieces > 1) == streamed
        assert [request.tool_choice for request in served.model.requests] == ["required"] * 4
