"""A model that is an address: the library may name it, as whoever calls it has opened the yard. No request may."""

import json

from support import open_yard
from surfaces.in_process_client import open_in_process_client
from toolyard import SettingsChange
from toolyard.core.conversation.settings import Settings
from toolyard.testing import say
from wire.strict_chat import StrictChat, says

HELLO = [{"role": "user", "content": "hi"}]
UI_HELLO = [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]
RUN_INPUT = {"threadId": "t", "runId": "r", "messages": [{"id": "m1", **HELLO[0]}], "tools": [], "context": []}
REQUESTS: list[tuple[str, str, dict[str, object]]] = [
    ("POST", "/ai/respond", {"prompt": "hi", "model": "MODEL"}),
    ("POST", "/conversations", {"title": "Test", "model": "MODEL"}),
    ("PUT", "/conversations/c", {"model": "MODEL"}),
    ("POST", "/chat/v1/conversation", {"messages": HELLO, "model": "MODEL"}),
    ("POST", "/v1/chat/completions", {"messages": HELLO, "model": "MODEL"}),
    ("POST", "/v1/responses", {"input": "hi", "model": "MODEL"}),
]
STREAMS: list[tuple[str, dict[str, object]]] = [
    ("/ai-sdk/chat", {"id": "t", "messages": UI_HELLO, "model": "MODEL"}),
    ("/ag-ui", {**RUN_INPUT, "forwardedProps": {"toolyard": {"model": "MODEL"}}}),
]


def name_model(body: dict[str, object], model: str) -> dict[str, object]:
    return json.loads(json.dumps(body).replace("MODEL", model))


async def test_the_library_names_an_address_and_no_request_to_the_same_yard_does() -> None:
    provider = StrictChat(*[says("from afar")] * 5)
    async with provider.serving() as base_url, open_yard([say("from the default")]) as yard:
        model = f"{base_url}#gpt"
        assert await yard.ask("hi", model=model) == "from afar"
        assert (await yard.execute("hi", model=model)).text == "from afar"
        assert await yard.ask("hi", settings=Settings(model=model)) == "from afar"
        assert await yard.ask("hi", conversation="c") == "from the default"
        await yard.change("c", SettingsChange(model=model))
        assert await yard.ask("hi", conversation="c") == "from afar"
        async with open_in_process_client(yard) as client:
            for method, path, body in REQUESTS:
                status, answer, _ = await client.ask(method, path, name_model(body, f"{base_url}#other"))
                assert status in (404, 422) and "is an address or a file" in str(answer), (path, answer)
            for path, body in STREAMS:
                data = [event async for event in client.stream_data("POST", path, name_model(body, f"{base_url}#o"))]
                assert "is an address or a file" in str(data), (path, data)
    assert len(provider.bodies) == 4
