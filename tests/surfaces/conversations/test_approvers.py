"""Approvers of a call over HTTP: they see what they may decide and nothing else, and decide it; the asker may not."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from surfaces.api_client import ApiClient, Json, build_key, open_api_client
from toolyard import ModelRequest, Result, tool
from toolyard.testing import Turn, call, say, together

KEYS = [
    build_key("bob"),
    build_key("ann", "finance"),
    build_key("eve", "finance"),
    build_key("zoe"),
    build_key("kim", "approver"),
    build_key("max", "finance", "approver", tenant="other"),
]
paid: list[int] = []


@tool(approval="other", approvers=["role:finance"], approvals=2, approval_reason=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    paid.append(amount)
    return "paid"


@tool(approval="ask")
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@asynccontextmanager
async def open_waiting_run() -> AsyncGenerator[tuple[ApiClient, str, list[str]]]:
    """A client, and the path of a payment that waits beside another call."""
    paid.clear()
    turn = together(call("pay", amount=5), call("delete_file", path="/"))

    def choose_turn(request: ModelRequest) -> Turn:
        return say("done") if isinstance(request.history[-1], Result) else turn

    async with open_api_client(choose_turn, tools=[pay, delete_file], keys=KEYS) as http:
        bob = http.with_key("bob")
        path = await bob.create_conversation()
        reply = await bob.post(f"{path}/chat", {"content": "pay"}, expect=202)
        yield http, path, [f"{path}/calls/{waiting['call_id']}" for waiting in reply["waiting"]]


async def list_calls(http: ApiClient, user: str, whose: str = "deciding") -> list[Json]:
    answer = await http.with_key(user).get(f"/live?whose={whose}&details=true")
    return [call for run in answer["runs"] for call in run["calls"]]


async def test_a_named_approver_finds_the_call_and_nothing_else_of_the_run() -> None:
    async with open_waiting_run() as (http, path, (payment, _)):
        (found,) = await list_calls(http, "ann")
        assert payment.endswith(found["id"]) and found["call"]["arguments"] == {"amount": 5}
        approval = found["approval"]
        assert approval.pop("expires_at") == found["expires_at"] > 0
        assert approval == {
            "rule": "approval = other",
            "approvers": "the role finance",
            "other": True,
            "needed": 2,
            "remaining": 2,
            "approved_by": [],
            "decisions": [],
            "reason_required": True,
            "may_decide": True,
            "refusal": "",
        }
        assert await list_calls(http, "zoe") == await list_calls(http, "max") == []
        # The asker may decide the other call; the approver of the tenant as well, and neither of them the payment.
        assert [call["tool"] for call in await list_calls(http, "bob")] == ["delete_file"]
        assert [call["tool"] for call in await list_calls(http, "kim")] == ["delete_file"]
        by_tool = {call["tool"]: call["approval"] for call in await list_calls(http, "bob", "mine")}
        assert not by_tool["pay"]["may_decide"] and "somebody else has to decide" in by_tool["pay"]["refusal"]
        assert by_tool["delete_file"]["may_decide"]
        titles = [
            (await http.with_key(user).get("/live?whose=deciding"))["runs"][0]["title"] for user in ("ann", "kim")
        ]
        assert titles == ["", "Test"], "the title may be the first message"
        for hidden in ("", "/messages", "/events"):
            assert (await http.with_key("ann").get(path + hidden, expect=404))["error_type"] == "not_found"


async def test_only_the_named_decide_each_once_and_the_asker_is_told_why_not() -> None:
    async with open_waiting_run() as (http, path, (payment, deletion)):
        reason = {"reason": "invoice 7"}
        refused = await http.with_key("bob").post(f"{payment}/approve", reason, expect=409)
        assert "'bob' asked for this call" in refused["error"]
        assert (
            "the role finance" in (await http.with_key("kim").post(f"{payment}/approve", reason, expect=409))["error"]
        )
        for stranger in ("zoe", "max"):
            await http.with_key(stranger).post(f"{payment}/approve", reason, expect=404)
        for other in (deletion, f"{payment}x", payment.replace("calls/", "calls/x")):
            await http.with_key("ann").post(f"{other}/approve", reason, expect=404)
        assert "needs a reason" in (await http.with_key("ann").post(f"{payment}/approve", expect=409))["error"]
        counted = await http.with_key("ann").post(f"{payment}/approve", reason)
        assert (counted["remaining"], counted["message"]) == (1, "Approval counted; 1 more needed")
        assert await list_calls(http, "ann") == []
        (left,) = await list_calls(http, "eve")
        assert (left["approval"]["remaining"], left["approval"]["approved_by"], paid) == (1, ["ann"], [])
        assert (await http.with_key("eve").post(f"{payment}/approve", reason))["remaining"] == 0
        await http.with_key("bob").post(f"{deletion}/deny")
        await http.with_key("bob").read_until_done(path)
        assert paid == [5]
        # Who comes late and was named hears that the call was decided.
        await http.with_key("eve").post(f"{payment}/approve", reason, expect=409)
        await http.with_key("zoe").post(f"{payment}/approve", reason, expect=404)


async def test_the_stream_tells_of_the_terms_and_of_each_approval() -> None:
    async with open_waiting_run() as (http, path, (payment, deletion)):
        for user in ("ann", "eve"):
            await http.with_key(user).post(f"{payment}/approve", {"reason": "invoice"})
        await http.with_key("bob").post(f"{deletion}/deny")
        events = [event for _, event in await http.with_key("bob").read_until_done(path, "0")]
        (asked,) = [event for event in events if event["type"] == "approval.required" and event["name"] == "pay"]
        terms = {"other": True, "approvers": ["role:finance"], "quorum": 2, "reason_required": True}
        assert asked["terms"] == terms
        (given,) = [event for event in events if event["type"] == "approval.given"]
        assert (given["by"], given["remaining"], given["name"]) == ("ann", 1, "pay")


async def test_a_response_does_not_ask_the_asker_for_an_approval() -> None:
    async with open_api_client([call("pay", amount=5)], tools=[pay], keys=KEYS) as http:
        body = {"input": "pay", "tools": [{"type": "mcp", "server_label": "bank"}]}
        _, answer, _ = await http.with_key("bob").send_request("POST", "/v1/responses", body)
        assert all(item["type"] != "mcp_approval_request" for item in answer["output"]), answer
        assert "waits for the approval of the role finance" in str(answer["output"])
