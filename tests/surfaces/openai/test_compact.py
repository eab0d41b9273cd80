"""`POST /v1/responses/compact` of a stored response: all of it, of its user only, and once it has ended."""

import asyncio

import aiohttp

from surfaces.api_client import Json, build_key, build_yard
from surfaces.http_server import serve_yard
from surfaces.openai.clients import add_to_groceries, list_exchange, serve_script
from surfaces.openai.sockets import post
from toolyard import tool
from toolyard.core.items import ModelText, TextPart, UserMessage
from toolyard.testing import call, say

BODY = {"model": "default"}


async def test_a_stored_response_is_summarised_with_everything_before_it() -> None:
    script = [call("add_to_groceries", item="milk"), say("Added."), say("Twice."), say("Milk was added.")]
    async with serve_script(script, [add_to_groceries]) as served:
        first = await served.client.responses.create(model="default", input="Add milk")
        second = await served.client.responses.create(
            model="default", input="Once more?", previous_response_id=first.id
        )
        status, compacted = await post(
            served.url,
            "/responses/compact",
            {**BODY, "previous_response_id": second.id, "input": "And eggs", "instructions": "Be brief."},
        )
        assert (status, [item["type"] for item in compacted["output"]]) == (200, ["compaction"])
        request = served.model.requests[-1]
    texts = [item.text for item in request.history if isinstance(item, ModelText)]
    parts = [part for item in request.history if isinstance(item, UserMessage) for part in item.parts]
    asked = [part.text for part in parts if isinstance(part, TextPart)]
    assert texts == ["Added.", "Twice."] and asked[:3] == ["Add milk", "Once more?", "And eggs"]
    assert list_exchange(request.history) == ["add_to_groceries['milk']", "add_to_groceries=added milk"]
    assert not request.offer.tools


async def test_only_the_part_up_to_the_named_response_is_summarised() -> None:
    async with serve_script([say("One."), say("Two."), say("Summary.")]) as served:
        first = await served.client.responses.create(model="default", input="1")
        await served.client.responses.create(model="default", input="2", previous_response_id=first.id)
        status, _ = await post(served.url, "/responses/compact", {**BODY, "previous_response_id": first.id})
        assert status == 200
        texts = [item.text for item in served.model.requests[-1].history if isinstance(item, ModelText)]
    assert texts == ["One."]


async def test_a_response_of_another_user_and_a_missing_one_look_the_same() -> None:
    async def send(session: aiohttp.ClientSession, path: str, body: object) -> tuple[int, Json]:
        async with session.post(f"{url}/v1{path}", json=body) as response:
            return response.status, await response.json()

    async with (
        asyncio.timeout(60),
        build_yard(lambda _: say("ok"), keys=[build_key("ann"), build_key("eve")]) as yard,
        serve_yard(yard) as url,
        aiohttp.ClientSession(headers={"x-api-key": "ann"}) as ann,
        aiohttp.ClientSession(headers={"x-api-key": "eve"}) as eve,
    ):
        _, response = await send(ann, "/responses", {"input": "Secret"})
        refusals: list[Json] = []
        for name in (response["id"], f"resp_{'0' * 48}"):
            status, refusal = await send(eve, "/responses/compact", {**BODY, "previous_response_id": name})
            assert status == 400 and refusal["error"]["code"] == "previous_response_not_found"
            refusals.append({**refusal["error"], "message": refusal["error"]["message"].replace(name, "")})
        assert refusals[0] == refusals[1]
        assert (await send(ann, "/responses/compact", {**BODY, "previous_response_id": response["id"]}))[0] == 200


async def test_a_response_that_is_still_running_is_not_summarised() -> None:
    entered, released = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        entered.set()
        await released.wait()
        return "waited"

    async with serve_script([call("wait"), say("Done.")], [wait]) as served:
        started = await served.client.responses.create(model="default", input="Go", background=True)
        await entered.wait()
        status, refusal = await post(served.url, "/responses/compact", {**BODY, "previous_response_id": started.id})
        assert status == 400 and len(served.model.requests) == 1, refusal
        released.set()
        stream = await served.client.responses.retrieve(started.id, stream=True)
        assert [event.type async for event in stream][-1] == "response.completed"
