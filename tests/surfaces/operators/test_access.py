"""`GET /access`: the rule that decides about a tool is the one that a call meets, and each sees what they may."""

import pytest

from surfaces.api_client import Json, build_key, open_api_client
from toolyard import Caller, PolicyRequest, Settings, Tool, Verdict, tool
from toolyard.core.settings.divisions import Division
from toolyard.core.tools.remembered_approvals import ALL_APPROVED, RememberedApproval
from toolyard.policies.ordered import OrderedPolicy

KEYS = [
    build_key("ann", "finance"),
    build_key("bob"),
    build_key("ada", "admin"),
    build_key("eve", "admin", tenant="other"),
    build_key("root", "admin", tenant=""),
]


@tool(roles=["finance"], approval="other", approvers=["role:board"], approvals=2, approval_s=60, destructive=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"


@tool
def look() -> str:
    """Look."""
    return "seen"


def keep_from_bob(request: PolicyRequest) -> Verdict | None:
    return Verdict("deny", "not for bob") if request.caller.user == "bob" and request.tool.name == "look" else None


async def test_the_explanation_names_the_rule_that_decides_and_who_approves() -> None:
    async with open_api_client(tools=[pay, look], keys=KEYS, rules=[keep_from_bob]) as http:
        access: Json = (await http.with_key("ann").get("/access?tool=pay"))["access"]
        assert (access["decision"], access["rule"], access["reason"]) == ("ask", "approval", "approval = other")
        need = {"approvers": "the role board", "other": True, "needed": 2, "reason_required": False, "approval_s": 60.0}
        assert access["approval"] == need and access["after_untrusted"] == "ask"
        rules = ["enabled", "key", "roles", "division", "conversation", "keep_from_bob", "approval"]
        assert [check["rule"] for check in access["checks"]] == rules
        denied: Json = (await http.with_key("bob").get("/access?tool=pay"))["access"]
        assert (denied["decision"], denied["rule"]) == ("deny", "roles") and "finance" in denied["reason"]
        assert denied["approval"] is None and denied["checks"][-1]["rule"] == "roles"
        ruled: Json = (await http.with_key("bob").get("/access?tool=look"))["access"]
        assert (ruled["rule"], ruled["reason"]) == ("keep_from_bob", "not for bob")
        await http.with_key("bob").get("/access?tool=none", expect=404)


async def test_administrators_ask_for_the_keys_that_they_manage_and_nobody_else_does() -> None:
    async with open_api_client(tools=[pay], keys=KEYS) as http:
        for admin in ("ada", "root"):
            access = (await http.with_key(admin).get("/access?tool=pay&key=ann@t"))["access"]
            assert (access["user"], access["tenant"], access["decision"]) == ("ann", "t", "ask")
        await http.with_key("eve").get("/access?tool=pay&key=ann@t", expect=404)
        await http.with_key("root").get("/access?tool=pay&key=none", expect=404)
        await http.with_key("bob").get("/access?tool=pay&key=ann@t", expect=403)


CALLERS = [Caller(user="ann", roles=frozenset({"finance"}), division="north"), Caller(user="bob"), Caller(tenant="t")]
TOOLS = [
    Tool(name="look"),
    Tool(name="off", enabled=False),
    Tool(name="pay", roles=frozenset({"finance"}), approval="other"),
    Tool(name="ask", approval="ask"),
    Tool(name="north", divisions=frozenset({"north"})),
    Tool(name="named", approvers=("role:x",)),
]
SETTINGS = [Settings(), Settings(tools=frozenset({"look"})), Settings(asked_tools=frozenset({"*"}))]


@pytest.mark.parametrize("remembered", [frozenset[RememberedApproval](), frozenset({ALL_APPROVED})])
def test_the_explanation_ends_with_the_verdict_of_a_call(remembered: frozenset[RememberedApproval]) -> None:
    divisions = {("", "north"): Division(tools=frozenset({"look", "north"}))}
    for policy in (OrderedPolicy(), OrderedPolicy([keep_from_bob], divisions)):
        for asked in (
            PolicyRequest(tool=judged, caller=caller, settings=settings, remembered=remembered)
            for judged in TOOLS
            for caller in CALLERS
            for settings in SETTINGS
        ):
            verdict, last = policy.judge(asked), policy.explain(asked)[-1]
            assert (last.decision, last.reason) == (verdict.decision, verdict.rule), asked
