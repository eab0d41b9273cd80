"""What the model itself is given while a loop goes on: the models here answer from what reached them, not by heart."""

import json
from pathlib import Path

import pytest

from support import STAFF, collect_events, get_result, get_results, join_text, open_yard, wait_for_event, wait_until
from surfaces.api_client import open_api_client
from surfaces.app_client import TOOLS, AppClient, build_tool_results
from toolyard import Caller, Context, Tool, ToolError, tool
from toolyard.core.conversation.events import CallParked, RunSuspended
from toolyard.core.items import Call, Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Scripted, Turn, call, say
from venues.mcp.plain import PlainServer

CODES = {"milk": "D-100", "bread": "B-200"}
SEARCH = Tool(name="search_products", description="Search.", parameters={"type": "object"}, venue="client")


def read_results(request: ModelRequest) -> list[Result]:
    return [item for item in request.history if isinstance(item, Result)]


@pytest.mark.proves("000.calls-in-sequence", "000.next-call-from-result")
async def test_milk_then_bread_are_four_calls_each_made_from_the_result_before_it() -> None:
    cart: list[str] = []

    @tool(read_only=True)
    def search_products(query: str) -> dict[str, str]:
        """Find a product."""
        return {"code": CODES[query]}

    @tool
    def add_to_cart(code: str) -> dict[str, object]:
        """Put a product into the cart."""
        cart.append(code)
        return {"ok": True, "in_cart": len(cart)}

    def shop(request: ModelRequest) -> Turn:
        reached = [json.loads(result.content) for result in read_results(request)]
        if len(reached) == 4:
            return say(f"There are {reached[-1]['in_cart']} things in your cart.")
        if len(reached) % 2:
            return call("add_to_cart", code=reached[-1]["code"])
        return call("search_products", query=("milk", "bread")[len(reached) // 2])

    async with open_yard(shop, [search_products, add_to_cart]) as yard:
        events = await collect_events(yard.run("add milk and bread"))
        tools = ["search_products", "add_to_cart", "search_products", "add_to_cart"]
        assert [result.tool for result in get_results(events)] == tools
        assert join_text(events) == "There are 2 things in your cart."
    assert cart == ["D-100", "B-200"]


@pytest.mark.proves("000.next-call-from-result")
async def test_an_app_gets_its_next_call_made_from_the_result_that_it_posted() -> None:
    def shop(request: ModelRequest) -> Turn:
        reached = read_results(request)
        if not reached:
            return call("search_products", query="milk")
        return call("add_to_cart", code=json.loads(reached[0].content)["products"][0]["code"])

    async with open_api_client(Scripted(shop)) as http:
        app = AppClient(http, TOOLS)
        first = await app.ask("Add milk to my cart")
        second = await app.post(build_tool_results(first, {"products": [{"code": "only-the-app-knows"}]}))
        (added,) = second["toolCalls"]
        assert (added["name"], added["arguments"]) == ("add_to_cart", {"code": "only-the-app-knows"})


@pytest.mark.proves("000.local-execution", "000.tool-result-continues")
async def test_the_model_reads_what_the_app_delivered_and_nothing_ran_on_the_server() -> None:
    def model(request: ModelRequest) -> Turn:
        reached = read_results(request)
        return say(f"I read {reached[0].content}") if reached else call("search_products", query="milk")

    async with open_yard(model) as yard:
        run = yard.run("find milk", app_tools=[SEARCH])
        parked, _ = await wait_for_event(run, CallParked)
        await wait_for_event(run, RunSuspended)  # nothing goes on here: the run waits for the app
        assert not [item for item in await yard.history(run.conversation) if isinstance(item, Result)]
        await yard.deliver(run.conversation, parked.call_id, {"products": ["Full Cream Milk"]})
        assert join_text(await collect_events(run)) == 'I read {"products":["Full Cream Milk"]}'


@pytest.mark.proves("001.error-result-to-model", "003.error-passed-to-model")
async def test_the_model_itself_is_given_the_kind_of_an_error_and_its_message() -> None:
    @tool
    def query_stock() -> None:
        """Fail as a database does."""
        raise ConnectionError("the database is down")

    @tool
    def find_list() -> None:
        """Fail in its own words."""
        raise ToolError("there is no such list", "not_found", {"wanted": "x"})

    def model(request: ModelRequest) -> Turn:
        reached = read_results(request)
        if len(reached) < 2:
            return call(("query_stock", "find_list")[len(reached)])
        return say(*(item.content for item in reached))

    async with open_yard(model, [query_stock, find_list]) as yard:
        answer = await yard.ask("go")
        assert "ConnectionError: the database is down" in answer
        error_json = '{"ok":false,"error":"there is no such list","error_type":"not_found","details":{"wanted":"x"}}'
        assert error_json in answer


@pytest.mark.proves("002.mcp-error-as-result")
async def test_the_model_is_given_the_error_of_an_mcp_server_and_goes_on(tmp_path: Path) -> None:
    server = PlainServer(tmp_path, trust=True)

    def model(request: ModelRequest) -> Turn:
        reached = read_results(request)
        return say(reached[0].content) if reached else call("fails")

    async with open_yard(model, servers={"plain": server.spec}) as yard:
        await wait_until(lambda: "fails" in yard.tool_names)
        run = yard.run("go")
        events = await collect_events(run)
        failed = get_result(events)
        assert failed.outcome == "error" and failed.error is not None
        assert failed.error.error in join_text(events) and failed.error.error_type in join_text(events)
        (called,) = [item for item in await yard.history(run.conversation) if isinstance(item, Call)]
        assert failed.call_id == called.id
    assert "fails" in server.notes.read_text()


class SearchMaterials:
    """An executor that requires no permission: nobody is asked for a role."""

    name = "search_materials"
    description = "搜索原料信息"
    parameters: dict[str, object] = {"type": "object", "properties": {"keyword": {"type": "string"}}}  # noqa: RUF012 - read, never written

    def is_enabled(self) -> bool:
        return True

    def requires_permission(self) -> bool:
        return False

    def has_permission(self, role: str) -> bool:
        raise AssertionError("not to be asked where no permission is required")

    def execute(self, call: Call, context: Context) -> dict[str, object]:
        return {"success": True, "asked_by": context.caller.user}


@pytest.mark.proves("001.executor-open-to-all")
@pytest.mark.parametrize("caller", [STAFF, Caller(user="guest"), Caller(user="boss", roles=frozenset({"admin"}))])
async def test_an_executor_that_requires_no_permission_is_offered_to_everybody_and_runs(caller: Caller) -> None:
    def model(request: ModelRequest) -> Turn:
        assert [tool.name for tool in request.offer.tools] == ["search_materials"]
        return say("好") if read_results(request) else call("search_materials", keyword="面粉")

    async with open_yard(model, [SearchMaterials()]) as yard:
        call_result = get_result(await collect_events(yard.run("go", caller=caller)))
        assert json.loads(call_result.content) == {"success": True, "asked_by": caller.user}
