"""The reason of a decision is shown to everybody who may see the call, and never to the model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from surfaces.api_client import ApiClient, Json, build_key, open_api_client
from toolyard import tool
from toolyard.testing import Scripted, call, say

KEYS = [build_key("bob"), build_key("ann", "finance"), build_key("eve", "finance"), build_key("boss", "operator")]
FIRST, SECOND = "It is invoice 7.", "I have seen it, too."


@tool(approval="other", approvers=["role:finance"], approvals=2, approval_reason=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


@asynccontextmanager
async def open_payment() -> AsyncGenerator[tuple[ApiClient, str, str, Scripted], None]:
    """Bob's payment, which waits: yields the API, the paths of its conversation and its call, and the model."""
    model = Scripted(lambda request: say("Paid.") if len(request.history) > 1 else call("pay", amount=5))
    async with open_api_client(model, tools=[pay], keys=KEYS) as http:
        path = await http.with_key("bob").create_conversation()
        answer = await http.with_key("bob").post(f"{path}/chat", {"content": "Pay 5"}, expect=202)
        yield http, path, f"{path}/calls/{answer['waiting'][0]['call_id']}", model


async def decide(http: ApiClient, path: str, payment: str, *, deny: bool = False) -> None:
    await http.with_key("ann").post(f"{payment}/approve", {"reason": FIRST})
    await http.with_key("eve").post(f"{payment}/{'deny' if deny else 'approve'}", {"reason": SECOND})
    await http.with_key("bob").read_until_done(path)


def build_decisions(*, deny: bool) -> list[Json]:
    return [
        {"by": "ann", "approved": True, "reason": FIRST},
        {"by": "eve", "approved": not deny, "reason": SECOND},
    ]


@pytest.mark.parametrize("deny", [False, True])
async def test_the_reasons_are_in_the_messages_the_exports_the_trace_and_the_stream(deny: bool) -> None:
    async with open_payment() as (http, path, payment, _):
        await decide(http, path, payment, deny=deny)
        for user in ("bob", "boss"):
            reader = http.with_key(user)
            (message,) = [message for message in await reader.list_messages(path) if message["role"] == "tool"]
            assert message["decisions"] == build_decisions(deny=deny)
            _, export, _ = await reader.send_request("GET", f"{path}/export?format=json")
            (result,) = [item for item in export["items"] if item["type"] == "result"]
            assert result["decisions"] == build_decisions(deny=deny)
            events = [event for _, event in await reader.read_until_done(path, "0")]
            (started,) = [event for event in events if event.get("state") == "started"]
            assert started["decisions"] == build_decisions(deny=deny)
            (given,) = [event for event in events if event["type"] == "approval.given"]
            assert given["reason"] == FIRST
            trace = await reader.get(f"{path}/runs/{events[-1]['run_id']}")
            (span,) = trace["run"]["calls"]
            assert span["decisions"] == build_decisions(deny=deny)


async def test_a_shared_link_that_shows_results_shows_the_reasons() -> None:
    async with open_payment() as (http, path, payment, _):
        await decide(http, path, payment)
        bob = http.with_key("bob")
        shared = await bob.post(f"{path}/shares", {"include_arguments": True}, expect=201)
        assert FIRST in str(await bob.get(f"/shares/{shared['token']}"))
        hidden = await bob.post(f"{path}/shares", {}, expect=201)
        assert FIRST not in str(await bob.get(f"/shares/{hidden['token']}"))


async def test_who_decides_next_sees_the_reasons_so_far() -> None:
    async with open_payment() as (http, _, payment, _):
        await http.with_key("ann").post(f"{payment}/approve", {"reason": FIRST})
        (run,) = (await http.with_key("eve").get("/live?whose=deciding&details=true"))["runs"]
        assert run["calls"][0]["approval"]["decisions"] == build_decisions(deny=False)[:1]


@pytest.mark.parametrize("deny", [False, True])
async def test_the_model_is_never_shown_a_required_reason(deny: bool) -> None:
    async with open_payment() as (http, path, payment, model):
        await decide(http, path, payment, deny=deny)
        await http.with_key("bob").post(f"{path}/chat", {"content": "Thanks"})
        for request in model.requests:
            seen = str([getattr(item, "content", getattr(item, "text", "")) for item in request.history])
            assert FIRST not in seen and SECOND not in seen
