"""Calls that wait for somebody: each is decided, answered or delivered once, in any order, by those who may."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import pytest

from surfaces.api_client import ApiClient, Json, both_ways, build_key, build_yard, connect_api_client, open_api_client
from surfaces.asking_venue import AskingVenue
from surfaces.in_process_client import InProcessClient
from toolyard import Caller, Tool, tool
from toolyard.app import App, Wiring
from toolyard.core.conversation.events import RunSuspended
from toolyard.models.resolver import ModelResolver
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Scripted, Turn, call, say, together

THREE = together(*(call("delete_file", path=path) for path in ("/a", "/b", "/c")))
VERBS: list[tuple[str, dict[str, object]]] = [
    *(("approve", {}), ("deny", {}), ("answer", {"content": {}}), ("result", {"result": 1}))
]


def make_delete_tool(deleted_paths: list[str], **rules: object) -> object:
    @tool(approval="ask", **rules)  # pyright: ignore[reportArgumentType, reportCallIssue]
    def delete_file(path: str) -> str:
        """Delete a file."""
        deleted_paths.append(path)
        return f"{path} is gone"

    return delete_file


async def start_waiting_run(http: ApiClient) -> tuple[str, list[str]]:
    """A conversation whose run waits, and the paths of its calls."""
    path = await http.create_conversation()
    reply = await http.post(f"{path}/chat", {"content": "delete"}, expect=202)
    return path, [f"{path}/calls/{call['call_id']}" for call in reply["waiting"]]


async def list_results(http: ApiClient, path: str) -> list[Json]:
    return [message["content"] for message in await http.list_messages(path) if message["role"] == "tool"]


@both_ways
async def test_calls_are_decided_one_by_one_in_any_order_and_each_only_once(way: str) -> None:
    ran: list[str] = []
    async with open_api_client([THREE, say("done")], way=way, tools=[make_delete_tool(ran)]) as http:
        path, (first, second, third) = await start_waiting_run(http)
        approved = await http.post(f"{third}/approve")
        assert set(approved) == {"success", "call_id", "message", "remaining"} and third.endswith(approved["call_id"])
        await http.post(f"{first}/deny", {"reason": "keep it"})
        for verb in ("approve", "deny"):
            for late in (first, third):
                assert (await http.post(f"{late}/{verb}", {}, expect=409))["error_type"] == "conflict"
        await http.post(f"{second}/approve", {"arguments": {"path": "/b2"}})
        assert (await http.read_until_done(path))[-1][1]["ending"] == "done"
        denied, edited, approved = await list_results(http, path)
        assert json.loads(denied)["error_type"] == "denied_by_user" and "keep it" in denied
        assert edited.endswith("/b2 is gone") and '"/b2"' in edited and approved == "/c is gone"
        assert sorted(ran) == ["/b2", "/c"]  # each runs in a thread of its own, from its approval on
        for late in (first, second, third):
            await http.post(f"{late}/approve", expect=409)
        assert sorted(ran) == ["/b2", "/c"]


async def test_of_many_who_decide_at_once_one_is_heard() -> None:
    ran: list[str] = []
    async with open_api_client([call("delete_file", path="/"), say("ok")], tools=[make_delete_tool(ran)]) as http:
        path, (only,) = await start_waiting_run(http)
        answers = await asyncio.gather(*(http.send_request("POST", f"{only}/approve") for _ in range(50)))
        assert sorted(status for status, _, _ in answers) == [200] + [409] * 49
        await http.read_until_done(path)
        assert ran == ["/"]


async def test_edited_arguments_are_checked_and_a_wrong_edit_leaves_the_call_waiting() -> None:
    ran: list[str] = []
    async with open_api_client([call("delete_file", path="/"), say("ok")], tools=[make_delete_tool(ran)]) as http:
        path, (only,) = await start_waiting_run(http)
        for wrong in ({"path": 1}, {}, {"path": "/x", "force": True}):
            reply = await http.post(f"{only}/approve", {"arguments": wrong}, expect=422)
            assert reply["error_type"] == "validation_error"
        await http.post(f"{only}/approve", {"arguments": {"path": "/x"}})
        await http.read_until_done(path)
        assert ran == ["/x"]


@pytest.mark.parametrize(("remember", "asked_again"), [("no", True), ("tool", False), ("conversation", False)])
async def test_an_approval_is_remembered_where_the_caller_says_so(remember: str, asked_again: bool) -> None:
    ran: list[str] = []

    again = call("delete_file", path="/2")
    script = [call("delete_file", path="/1"), say("ok"), again, *(() if asked_again else (say("ok"),))]
    async with open_api_client(script, tools=[make_delete_tool(ran)]) as http:
        path, (only,) = await start_waiting_run(http)
        await http.post(f"{only}/approve", {"remember": remember})
        await http.read_until_done(path)
        status, _, _ = await http.send_request("POST", f"{path}/chat", {"content": "again"})
        assert status == (202 if asked_again else 200)


async def test_a_decision_after_the_time_to_decide_is_refused_and_nothing_runs() -> None:
    ran: list[str] = []
    async with open_api_client(
        [call("delete_file", path="/"), say("ok")], tools=[make_delete_tool(ran, approval_s=0.05)]
    ) as http:
        path, (only,) = await start_waiting_run(http)
        await http.read_until_done(path)  # nobody decided
        await http.post(f"{only}/approve", expect=409)
        assert json.loads((await list_results(http, path))[0])["error_type"] == "approval_expired"
        assert ran == []


async def test_the_owner_and_the_approvers_of_the_tenant_decide_and_nobody_else() -> None:
    ran: list[str] = []

    keys = [
        build_key("ann"),
        build_key("bob"),
        build_key("op", "operator"),
        build_key("boss", "approver"),
        build_key("eve", "approver", tenant="e"),
    ]
    async with open_api_client([THREE, say("ok")], tools=[make_delete_tool(ran)], keys=keys) as http:
        path, (first, second, third) = await start_waiting_run(http.with_key("ann"))
        for who in ("bob", "op", "eve"):
            for verb, body in VERBS:
                await http.with_key(who).post(f"{first}/{verb}", body, expect=404)
        await http.with_key("ann").post(f"{first}/approve")
        await http.with_key("boss").post(f"{second}/approve")
        await http.with_key("boss").post(f"{third}/deny")
        await http.with_key("boss").read_until_done(path)
        trace = await http.with_key("op").get(path)
        assert trace["conversation"]["status"] == "idle" and sorted(ran) == ["/a", "/b"]


async def test_what_a_call_does_not_wait_for_is_a_conflict_and_a_call_that_never_was_is_not_found() -> None:
    ran: list[str] = []
    async with open_api_client([call("delete_file", path="/")], tools=[make_delete_tool(ran)]) as http:
        path, (only,) = await start_waiting_run(http)
        await http.post(f"{only}/result", {"result": "forged"}, expect=409)
        await http.post(f"{only}/answer", {"content": {}}, expect=409)
        for verb, body in VERBS:
            await http.post(f"{path}/calls/call_forged/{verb}", body, expect=404)
        await http.post(f"{only}/approve", {"remember": "for ever"}, expect=422)
        await http.post(f"{only}/approve", {"argument": {}}, expect=422)
        assert ran == [] and (await http.get(path))["conversation"]["status"] == "waiting"


SEARCH = Tool(name="search", venue="client")


def run_with_client_call(
    test: Callable[[ApiClient, str, str], Awaitable[None]], script: Sequence[Turn], way: str = "inside"
) -> None:
    """A run whose call was handed to the application."""

    async def run() -> None:
        async with asyncio.timeout(30), build_yard(script) as yard, connect_api_client(yard, way) as http:
            started_run = yard.run("go", app_tools=[SEARCH], caller=Caller(user="local"))
            async for event in started_run:
                if isinstance(event, RunSuspended):
                    path = f"/conversations/{started_run.conversation}"
                    await test(http, path, f"{path}/calls/{event.waiting_for[0]}/result")
                    break

    asyncio.run(run())


@both_ways
@pytest.mark.parametrize(
    ("body", "content"),
    [
        ({"result": {"found": ["Milk"]}}, {"found": ["Milk"]}),
        ({"result": None}, None),
        ({"result": 0}, 0),
        ({"error": "sold out"}, {"ok": False, "error": "sold out", "error_type": "execution_error", "details": {}}),
        (
            {"error": {"error": "sold out", "error_type": "not_found", "details": {"at": 3}}},
            {"ok": False, "error": "sold out", "error_type": "not_found", "details": {"at": 3}},
        ),
    ],
)
def test_the_applications_result_or_error_is_taken_once(way: str, body: Json, content: Json) -> None:
    async def test(http: ApiClient, path: str, result: str) -> None:
        for wrong in ({}, {"result": 1, "error": "x"}, {"error": 5}, {"error": {"no": 1}}, {"value": 1}):
            await http.post(result, wrong, expect=422)
        await http.post(result.replace("/result", "/approve"), expect=409)
        await http.post(result, body)
        await http.post(result, body, expect=409)
        await http.read_until_done(path)
        assert [json.loads(text) for text in await list_results(http, path)] == [content]

    run_with_client_call(test, [call("search"), say("ok")], way)


def test_a_text_that_the_application_gives_is_the_text_that_the_model_reads() -> None:
    async def test(http: ApiClient, path: str, result: str) -> None:
        await http.post(result, {"result": "two bottles"})
        await http.read_until_done(path)
        assert await list_results(http, path) == ["two bottles"]

    run_with_client_call(test, [call("search"), say("ok")])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"content": {"day": "Monday"}}, {"reply": "accepted", "content": {"day": "Monday"}}),
        ({"reply": "declined"}, {"reply": "declined", "content": {}}),
    ],
)
async def test_a_question_that_a_tool_asks_is_shown_and_answered_once(body: Json, expected: Json) -> None:
    model, store = Scripted([call("book"), say("booked")]), MemoryStore()
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        app = App(Wiring(model=model), ModelResolver(model), store, tasks)
        app.registry.add(AskingVenue({"message": "Which day?"}))
        await app.service.start()
        http = ApiClient(InProcessClient(await app.asgi(), {}))
        path = await http.create_conversation()
        (question,) = (await http.post(f"{path}/chat", {"content": "book"}, expect=202))["waiting"]
        assert (question["name"], question["for"]) == ("book", "answer")
        available = await http.get(f"{path}/tools/available")
        assert available["available_tools"][0]["server_id"] == "mcp"
        answer = f"{path}/calls/{question['call_id']}/answer"
        await http.post(answer, {"content": "Monday"}, expect=422)
        await http.post(answer, body)
        await http.post(answer, body, expect=409)
        received = await http.read_until_done(path)
        assert [event["question"] for _, event in received if event["type"] == "question.asked"] == [
            {"message": "Which day?"}
        ]
        assert [json.loads(result) for result in await list_results(http, path)] == [expected]
        await app.close()
