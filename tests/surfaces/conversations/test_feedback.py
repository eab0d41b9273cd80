"""Feedback on runs: of the owner, seen by operators, exported and deleted with the conversation."""

import pytest

from surfaces.api_client import build_key, build_yard, connect_api_client
from surfaces.http_server import connect_client
from toolyard import tool
from toolyard.core.items import ModelText, Result
from toolyard.core.ports import FEEDBACK_HANDLE, ModelRequest
from toolyard.testing import Scripted, Turn, call, say


async def test_feedback_is_kept_with_the_run_and_shown_to_operators_and_in_exports() -> None:
    model = Scripted(lambda _: say("ok"))
    yard = build_yard(model, keys=[build_key("ann"), build_key("bob"), build_key("op", "operator")])
    async with yard, connect_api_client(yard) as anybody:
        ann, bob, operator = (anybody.with_key(name) for name in ("ann", "bob", "op"))
        path = await ann.create_conversation()
        run = (await ann.post(f"{path}/chat", {"content": "hello"}))["run_id"]
        given = (await ann.put(f"{path}/runs/{run}/feedback", {"rating": "down", "note": "too short"}))["feedback"]
        assert (given["rating"], given["note"], given["by"]) == ("down", "too short", "ann")
        assert (await operator.get(f"{path}/runs/{run}"))["feedback"] == given
        assert (await operator.get(f"{path}/feedback"))["feedback"] == {run: given}
        _, exported, _ = await ann.send_request("GET", f"{path}/export?format=json")
        assert exported["feedback"] == {run: given}
        correlation_id = (await operator.get(f"{path}/runs/{run}"))["run"]["correlation_id"]
        assert (await operator.get(f"/traces/{correlation_id}"))["feedback"] == {run: given}
        async with connect_client(yard, x_api_key="ann") as http:
            markdown = await http.get_text(f"{path}/export")
        assert "\n## Feedback\n\n- Bad answer, by ann · 20" in markdown and markdown.endswith("\n\n> too short\n")
        for other in (bob, operator):
            await other.put(f"{path}/runs/{run}/feedback", {"rating": "up"}, expect=404)
        await ann.put(f"{path}/runs/{run}/feedback", {"rating": "up"})
        assert (await ann.get(f"{path}/feedback"))["feedback"][run]["note"] == ""
        await ann.post(f"{path}/chat", {"content": "and?"})
        assert "too short" not in str(model.requests[-1].history) + model.requests[-1].system
        await ann.delete(f"{path}/runs/{run}/feedback")
        await ann.delete(f"{path}/runs/{run}/feedback", expect=404)
        assert (await operator.get(f"{path}/runs/{run}"))["feedback"] is None
        await ann.put(f"{path}/runs/{run}/feedback", {"rating": "up"})
        conversation = path.rpartition("/")[2]
        assert await yard.service.conversations.read_blob(conversation, FEEDBACK_HANDLE)
        await ann.delete(path)
        assert await yard.service.conversations.read_blob(conversation, FEEDBACK_HANDLE) is None


@pytest.mark.parametrize("body", [{"rating": "meh"}, {"rating": "up", "note": "x" * 2_001}, {"note": "x"}])
async def test_feedback_that_is_wrong_is_refused(body: dict[str, str]) -> None:
    yard = build_yard(lambda _: say("ok"))
    async with yard, connect_api_client(yard) as http:
        path = await http.create_conversation()
        run = (await http.post(f"{path}/chat", {"content": "hello"}))["run_id"]
        await http.put(f"{path}/runs/{run}/feedback", body, expect=422)
        await http.put(f"{path}/runs/run_other/feedback", {"rating": "up"}, expect=404)


@tool(max_result_bytes=100)
def read_log() -> str:
    """Return a long text."""
    return "line\n" * 1_000


async def test_a_model_cannot_read_the_feedback_as_a_result() -> None:
    results: list[Result] = []

    def script(request: ModelRequest) -> Turn:
        results[:] = [item for item in request.history if isinstance(item, Result)]
        turns = (call("read_log"), say("long"), call("read_result", handle=FEEDBACK_HANDLE), say("none"))
        said = sum(isinstance(item, ModelText) for item in request.history)
        return turns[len(results) + said]

    yard = build_yard(script, tools=[read_log])
    async with yard, connect_api_client(yard) as http:
        path = await http.create_conversation()
        run = (await http.post(f"{path}/chat", {"content": "hello"}))["run_id"]
        await http.put(f"{path}/runs/{run}/feedback", {"rating": "down", "note": "private"})
        await http.post(f"{path}/chat", {"content": "read it"})
    assert [(result.tool, result.outcome) for result in results] == [("read_log", "ok"), ("read_result", "error")]
