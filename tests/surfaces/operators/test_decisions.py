"""The list of decisions: newest first, in pages, with tool, reason and who decided, for those who may see it."""

from pathlib import Path

import pytest

from contracts.store_contract import OpenStore, get_function_name, memory, postgres, sqlite
from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client
from toolyard import tool
from toolyard.testing import Scripted, call, say

KEYS = [
    build_key("ann"),
    build_key("bob"),
    build_key("cfo"),
    build_key("ada", "approver"),
    build_key("eve", "approver", tenant="elsewhere"),
]


@tool(title="Pay an invoice", approval="ask")
def pay_invoice(number: str) -> str:
    """Pay."""
    return f"paid {number}"


@tool(approval="ask", approvers=["user:cfo"], approval_reason=True)
def wire_money(amount: int) -> str:
    """Send money."""
    return f"sent {amount}"


async def decide(http: ApiClient, decider: str, decision: str, body: Json, *, text: str = "pay") -> None:
    """Let ann ask for a call in a conversation of its own, and decide it."""
    path = await http.with_key("ann").create_conversation(f"Invoices of {decider}")
    waiting = await http.with_key("ann").post(f"{path}/chat", {"content": text}, expect=202)
    await http.with_key(decider).post(f"{path}/calls/{waiting['waiting'][0]['call_id']}/{decision}", body)
    await http.with_key("ann").read_until_done(path)  # the next run takes the next step of the script


async def list_decisions(http: ApiClient, key: str, query: str = "") -> list[tuple[str, str, bool, str]]:
    page = await http.with_key(key).get(f"/decisions{query}")
    return [(each["by"], each["title"], each["approved"], each["reason"]) for each in page["decisions"]]


@pytest.mark.parametrize("open_store", [memory, sqlite, postgres], ids=get_function_name)
async def test_decisions_are_listed_newest_first_for_those_who_may_see_them(
    open_store: OpenStore, tmp_path: Path
) -> None:
    turns = [say("done"), call("pay_invoice", number="R-17"), say("done"), call("wire_money", amount=5), say("done")]
    model = Scripted([call("pay_invoice", number="R-17"), *turns])
    async with open_store(tmp_path) as store:
        yard = build_yard(model, keys=KEYS, tools=[pay_invoice, wire_money], opened_store=store)
        async with yard, connect_api_client(yard) as http:
            await decide(http, "ann", "approve", {"arguments": {"number": "R-18"}})
            await decide(http, "ada", "deny", {"reason": "paid in May"})
            await decide(http, "cfo", "approve", {"reason": "agreed"}, text="wire")

            everything = [
                ("cfo", "Invoices of cfo", True, "agreed"),
                ("ada", "Invoices of ada", False, "paid in May"),
                ("ann", "Invoices of ann", True, ""),
            ]
            assert await list_decisions(http, "ann") == everything
            assert await list_decisions(http, "ada") == everything
            assert await list_decisions(http, "bob") == await list_decisions(http, "eve") == []
            # Who is named as an approver sees the own decision, and nothing else of the conversation.
            assert await list_decisions(http, "cfo") == [("cfo", "", True, "agreed")]

            first = await http.with_key("ann").get("/decisions?limit=2")
            second = await http.with_key("ann").get(f"/decisions?limit=2&after={first['next']}")
            assert [each["tool"] for each in first["decisions"]] == ["wire_money", "pay_invoice"]
            assert [each["tool_title"] for each in first["decisions"]] == ["", "Pay an invoice"]
            (edited,) = second["decisions"]
            assert (edited["edited"], first["decisions"][1]["edited"], second["next"]) == (True, False, None)
            await http.with_key("ann").get("/decisions?after=x", expect=422)


async def test_a_decision_that_was_refused_or_whose_conversation_is_gone_is_not_listed() -> None:
    model = Scripted([call("pay_invoice", number="R-17"), say("done")])
    yard = build_yard(model, keys=KEYS, tools=[pay_invoice])
    async with yard, connect_api_client(yard) as anybody:
        http = anybody.with_key("ann")
        path = await http.create_conversation("Invoices")
        waiting = await http.post(f"{path}/chat", {"content": "pay"}, expect=202)
        call_path = f"{path}/calls/{waiting['waiting'][0]['call_id']}"
        await http.post(f"{call_path}/approve", {"arguments": {"number": 7}}, expect=422)
        assert await list_decisions(anybody, "ann") == []
        await http.post(f"{call_path}/deny", {})
        await http.read_until_done(path)
        await http.post(f"{call_path}/approve", {}, expect=409)
        assert await list_decisions(anybody, "ann") == [("ann", "Invoices", False, "")]
        await http.delete(path)
        assert await list_decisions(anybody, "ada") == []
