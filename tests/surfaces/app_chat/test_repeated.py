"""An application's request that is sent again with its Idempotency-Key."""

import asyncio

from surfaces.api_client import Json, open_api_client
from surfaces.app_client import AppClient, build_tool_results, user_message
from toolyard.testing import call, say

SEARCH_CALL = call("search_products", query="milk")


async def test_results_that_are_sent_twice_at_the_same_time_are_delivered_once_and_answered_twice() -> None:
    async with open_api_client([SEARCH_CALL, say("done")]) as http:
        app = AppClient(http)
        body = build_tool_results(await app.ask("milk?"), "3 in stock")
        answers = await asyncio.gather(*(app.post(body, idempotency_key="k") for _ in range(5)))
        assert [answer["message"]["content"] for answer in answers] == ["done"] * 5


async def test_a_repeated_request_goes_on_from_the_last_event_that_the_application_has_seen() -> None:
    async with open_api_client([SEARCH_CALL, say("done")]) as http:
        app = AppClient(http)
        events = await check_resumed(app, {"messages": [user_message("milk?")], "tools": app.tools}, "first")
        tool_calls = next(event for event in events if event["type"] == "tool_calls")
        await check_resumed(app, build_tool_results(tool_calls, "3 in stock"), "second")


async def check_resumed(app: AppClient, body: dict[str, object], key: str) -> list[Json]:
    """Stream a request, check that a repetition from a later event has the rest of it, and return the objects."""
    events = [event async for event in app.stream(body, idempotency_key=key)]
    position = next(number for number, (event_id, _) in enumerate(events) if event_id != events[0][0])
    last_id = events[position][0]
    started, *later = [event async for event in app.stream(body, idempotency_key=key, last_event_id=last_id)]
    assert (started[0], started[1]["type"]) == (last_id, "started")
    assert [event["type"] for _, event in later] == [event["type"] for _, event in events[position + 1 :]]
    return [event for _, event in events]
