"""The ids that a client has for the messages of a history that it sends: used where they can be, else ignored."""

from surfaces.api_client import Json, open_api_client
from surfaces.app_client import AppClient, user_message
from toolyard.testing import say

HISTORY: list[Json] = [
    {"role": "user", "content": "one", "id": "m-1"},
    {"role": "assistant", "content": "two", "id": "m-2"},
    {"role": "user", "content": "three", "id": "m-1"},
    {"role": "assistant", "content": "four", "id": "not valid"},
]


async def list_ids(http: Json, conversation: str) -> list[str]:
    return [message["id"] for message in await http.list_messages(f"/conversations/{conversation}")]


def is_ours(message_id: str) -> bool:
    return message_id.startswith("item")


async def test_the_ids_of_a_history_that_is_sent_with_a_prompt_are_kept() -> None:
    async with open_api_client([say("ok"), say("again")]) as http:
        body = {"prompt": "five", "message_id": "m-5", "history": HISTORY, "keep": True}
        events = [event async for _, event in http.stream_post("/ai/respond", body)]
        conversation = events[-1]["conversation_id"]
        ids = await list_ids(http, conversation)
        assert (ids[0], ids[1], ids[4]) == ("m-1", "m-2", "m-5") and all(map(is_ours, ids[2:4]))
        body = {"prompt": "six", "history": HISTORY, "conversation_id": conversation}
        events = [event async for _, event in http.stream_post("/ai/respond", body)]
        assert events[-1]["ending"] == "done"
        assert all(map(is_ours, (await list_ids(http, conversation))[6:10]))


async def test_the_ids_of_an_applications_messages_are_kept() -> None:
    async with open_api_client([say("ok"), say("again"), say("more")]) as http:
        app = AppClient(http)
        image = {"role": "user", "content": [{"type": "image", "url": "https://example.org/a.png"}], "id": "m-6"}
        odd = {"role": "user", "content": "odd", "id": {"number": 7}}
        first = await app.post({"messages": [*HISTORY, image, odd], "keep": True})
        ids = await list_ids(http, first["conversationId"])
        assert (ids[0], ids[1], ids[4]) == ("m-1", "m-2", "m-6") and is_ours(ids[5])
        for message_id in ("m-8", "m-1"):
            body = {"conversationId": first["conversationId"], "messages": [{**user_message("go"), "id": message_id}]}
            assert (await app.post(body))["stopReason"] == "done"
        ids = await list_ids(http, first["conversationId"])
        assert ids[7] == "m-8" and is_ours(ids[9])
