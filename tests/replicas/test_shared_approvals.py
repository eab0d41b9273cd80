"""People who decide a call at several replicas at once: as many count as are needed, and the call runs once."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from postgres import create_database
from replicas.pair import Replica, open_replicas
from surfaces.api_client import build_key
from toolyard import ModelRequest, tool
from toolyard.core.conversation.events import CallApproved, CallDenied, CallStarted
from toolyard.core.items import Result
from toolyard.testing import Turn, call, say

PEOPLE = [f"user{number}" for number in range(50)]
KEYS = [build_key("bob"), *(build_key(person, "finance") for person in PEOPLE)]
paid: list[int] = []


@tool(approval="other", approvers=["role:finance"], approvals=3)
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return "paid"


def choose_turn(request: ModelRequest) -> Turn:
    return say("done") if isinstance(request.history[-1], Result) else call("pay", amount=5)


@asynccontextmanager
async def open_three(kind: str) -> AsyncGenerator[list[Replica]]:
    paid.clear()
    wiring = {"script": choose_turn, "tools": [pay], "keys": KEYS}
    if kind == "memory":
        async with open_replicas(3, **wiring) as replicas:  # pyright: ignore[reportArgumentType]
            yield replicas
        return
    async with create_database() as url, open_replicas(3, url, **wiring) as replicas:  # pyright: ignore[reportArgumentType]
        yield replicas


@pytest.mark.parametrize("kind", ["memory", "postgres"])
@pytest.mark.parametrize("verbs", [("approve",), ("approve", "deny")], ids=["approve", "both"])
async def test_of_fifty_who_decide_at_three_replicas_as_many_count_as_are_needed(
    kind: str, verbs: tuple[str, ...]
) -> None:
    async with open_three(kind) as replicas:
        bob = replicas[0].http.with_key("bob")
        path = await bob.create_conversation()
        reply = await bob.post(f"{path}/chat", {"content": "pay"}, expect=202)
        call_path = f"{path}/calls/{reply['waiting'][0]['call_id']}"

        async def decide(number: int) -> int:
            http = replicas[number % 3].http.with_key(PEOPLE[number])
            status, _, _ = await http.send_request("POST", f"{call_path}/{verbs[number % len(verbs)]}", {})
            return status

        statuses = Counter(await asyncio.gather(*map(decide, range(50))))
        await bob.read_until_done(path)
        entries = await replicas[1].yard.service.conversations.read_entries(path.removeprefix("/conversations/"))
    events = [entry.event for entry in entries]
    approved, denied, started = (
        sum(isinstance(event, kind) for event in events) for kind in (CallApproved, CallDenied, CallStarted)
    )
    assert set(statuses) == {200, 409} and statuses[200] == approved + denied
    assert (approved, denied, started) == (3, 0, 1) if len(verbs) == 1 else denied + (approved == 3) == 1
    assert len(paid) == started == (approved == 3)
    people = [event.by for event in events if isinstance(event, CallApproved)]
    assert len(set(people)) == len(people)


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_one_person_who_approves_at_three_replicas_at_once_counts_once_and_the_asker_never(kind: str) -> None:
    async with open_three(kind) as replicas:
        bob = replicas[0].http.with_key("bob")
        path = await bob.create_conversation()
        reply = await bob.post(f"{path}/chat", {"content": "pay"}, expect=202)
        call_path = f"{path}/calls/{reply['waiting'][0]['call_id']}"

        async def approve(number: int) -> tuple[str, int]:
            user = "bob" if number % 2 else PEOPLE[0]
            http = replicas[number % 3].http.with_key(user)
            status, _, _ = await http.send_request("POST", f"{call_path}/approve", {})
            return user, status

        answers = Counter(await asyncio.gather(*map(approve, range(30))))
        assert answers == {(PEOPLE[0], 200): 1, (PEOPLE[0], 409): 14, ("bob", 409): 15}
        (run,) = (await replicas[2].http.with_key(PEOPLE[1]).get("/live?whose=deciding"))["runs"]
        assert (run["calls"][0]["approval"]["remaining"], paid) == (2, [])
