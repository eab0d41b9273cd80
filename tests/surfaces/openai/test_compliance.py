"""What the compliance suite of Open Responses checks, one test for each of its seventeen.

`check_response` and `check_events` hold what its schemas require: fields that must be there, and their types.
"""

from collections.abc import Mapping, Sequence

from surfaces.api_client import Json
from surfaces.openai.clients import serve_script
from surfaces.openai.sockets import open_talk, post, stream
from toolyard.testing import call, say

Number = (int, float)
RESPONSE_FIELDS: Mapping[str, object] = {
    "id": str,
    "object": str,
    "created_at": int,
    "completed_at": (int, type(None)),
    "status": str,
    "incomplete_details": (dict, type(None)),
    "model": str,
    "previous_response_id": (str, type(None)),
    "instructions": (str, type(None)),
    "output": list,
    "error": (dict, type(None)),
    "tools": list,
    "tool_choice": (str, dict),
    "truncation": str,
    "parallel_tool_calls": bool,
    "text": dict,
    "top_p": Number,
    "presence_penalty": Number,
    "frequency_penalty": Number,
    "top_logprobs": int,
    "temperature": Number,
    "reasoning": (dict, type(None)),
    "usage": (dict, type(None)),
    "max_output_tokens": (int, type(None)),
    "max_tool_calls": (int, type(None)),
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": (str, type(None)),
    "prompt_cache_key": (str, type(None)),
}
ITEM_FIELDS: Mapping[str, Mapping[str, object]] = {
    "message": {"id": str, "status": str, "role": str, "content": list},
    "function_call": {"id": str, "call_id": str, "name": str, "arguments": str, "status": str},
    "compaction": {"id": str, "encrypted_content": str},
}
USAGE_FIELDS: Mapping[str, object] = {
    "input_tokens": int,
    "output_tokens": int,
    "total_tokens": int,
    "input_tokens_details": dict,
    "output_tokens_details": dict,
}
PLACE: Mapping[str, object] = {"item_id": str, "output_index": int}
EVENT_FIELDS: Mapping[str, Mapping[str, object]] = {
    "response.created": {"response": dict},
    "response.in_progress": {"response": dict},
    "response.output_item.added": {"output_index": int, "item": dict},
    "response.output_item.done": {"output_index": int, "item": dict},
    "response.content_part.added": {**PLACE, "content_index": int, "part": dict},
    "response.content_part.done": {**PLACE, "content_index": int, "part": dict},
    "response.output_text.delta": {**PLACE, "content_index": int, "delta": str, "logprobs": list},
    "response.output_text.done": {**PLACE, "content_index": int, "text": str, "logprobs": list},
    "response.function_call_arguments.delta": {**PLACE, "delta": str},
    "response.function_call_arguments.done": {**PLACE, "arguments": str},
    "response.completed": {"response": dict},
}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Return the weather at a place",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
}
PIXEL = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def check_fields(body: Json, fields: Mapping[str, Json]) -> None:
    for name, kind in fields.items():
        assert name in body, f"{name} is missing in {body}"
        assert isinstance(body[name], kind), f"{name} is {body[name]!r}"


def check_response(response: Json, status: str = "completed") -> None:
    check_fields(response, RESPONSE_FIELDS)
    assert (response["object"], response["status"]) == ("response", status)
    assert response["output"], "a response needs output"
    for item in response["output"]:
        check_fields(item, ITEM_FIELDS[item["type"]])
    check_fields(response["usage"], USAGE_FIELDS)
    assert set(response["text"]["format"]) >= {"type"}


def check_events(events: Sequence[Json]) -> Json:
    """Check every event, and return the response of the last one."""
    for event in events:
        check_fields(event, {"sequence_number": int, **EVENT_FIELDS[event["type"]]})
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    check_response(events[-1]["response"])
    return events[-1]["response"]


def check_missing(events: Sequence[Json]) -> None:
    (error,) = events
    check_fields(error, {"status": int, "error": dict})
    assert (error["type"], error["error"]["code"]) == ("error", "previous_response_not_found")
    assert 400 <= error["status"] < 500


def ask(*texts: str, role: str = "user") -> list[Json]:
    return [{"type": "message", "role": role, "content": text} for text in texts]


async def test_basic_response() -> None:
    async with serve_script([say("Hello to you.")]) as served:
        status, response = await post(served.url, "/responses", {"model": "default", "input": ask("Greet me.")})
    assert status == 200
    check_response(response)


async def test_assistant_messages_with_a_phase() -> None:
    items = [
        {**ask("It was saved before.", role="assistant")[0], "phase": "commentary"},
        {**ask("It is seven.", role="assistant")[0], "phase": "final_answer"},
        *ask("Which number?"),
    ]
    async with serve_script([say("Seven.")]) as served:
        _, response = await post(served.url, "/responses", {"model": "default", "input": items})
    check_response(response)


async def test_output_messages_may_lack_a_phase() -> None:
    """The suite checks its own schema here: a phase is allowed, and ours, which has none, fits as well."""
    async with serve_script([say("Seven.")]) as served:
        _, response = await post(served.url, "/responses", {"model": "default", "input": ask("Which number?")})
    assert [item.get("phase") for item in response["output"]] == [None]


async def test_streaming_response() -> None:
    async with serve_script([say("1 ", "2 ", "3")]) as served:
        check_events(await stream(served.url, {"model": "default", "input": ask("Count.")}))


async def test_websocket_response() -> None:
    async with serve_script([say("1 ", "2 ", "3")]) as served, open_talk(served.url) as talk:
        response = check_events(await talk.create(ask("Count.")))
        assert response["output"][0]["content"][0]["text"] == "1 2 3"


async def test_websocket_sequential_responses() -> None:
    async with serve_script([say("first"), say("second")]) as served, open_talk(served.url) as talk:
        for word in ("first", "second"):
            response = check_events(await talk.create(f"Say {word}", store=False))
            assert response["output"][0]["content"][0]["text"] == word


async def test_websocket_continuation_of_what_is_not_stored() -> None:
    async with serve_script([say("OK"), say("cobalt")]) as served, open_talk(served.url) as talk:
        first = check_events(await talk.create("The word is cobalt.", store=False))
        second = check_events(await talk.create("Which word?", store=False, previous_response_id=first["id"]))
        assert second["previous_response_id"] == first["id"]
        texts = [getattr(item, "text", "") for item in served.model.requests[1].history]
    assert texts == ["The word is cobalt.", "OK", "Which word?"]


async def test_websocket_reconnect_loses_what_is_not_stored() -> None:
    async with serve_script([say("OK"), say("recovered")]) as served:
        async with open_talk(served.url) as talk:
            first = check_events(await talk.create(store=False))
        async with open_talk(served.url) as talk:
            check_missing(await talk.create(store=False, previous_response_id=first["id"]))
            check_events(await talk.create(store=False))


async def test_websocket_previous_response_that_never_was() -> None:
    async with serve_script(lambda _: say("OK")) as served, open_talk(served.url) as talk:
        check_missing(await talk.create(store=False, previous_response_id="resp_openresponses_missing_1"))
        check_missing(await talk.create(previous_response_id=f"resp_{'0' * 48}"))


async def test_websocket_failed_continuation_forgets_what_it_went_on_from() -> None:
    output = {"type": "function_call_output", "call_id": "call_nobody_made", "output": "nothing"}
    async with serve_script([say("OK")]) as served, open_talk(served.url) as talk:
        first = check_events(await talk.create(store=False))
        (failed,) = await talk.create([output], store=False, previous_response_id=first["id"])
        assert (failed["type"], failed["error"]["type"]) == ("error", "invalid_request_error")
        check_missing(await talk.create(store=False, previous_response_id=first["id"]))
        assert len(served.model.requests) == 1


async def test_websocket_goes_on_from_a_compacted_history() -> None:
    items = [*ask("The word is slate."), *ask("OK.", role="assistant"), *ask("Compress this.")]
    async with serve_script([say("The word: slate."), say("compacted")]) as served, open_talk(served.url) as talk:
        _, compacted = await post(served.url, "/responses/compact", {"model": "default", "input": items})
        events = await talk.create([*compacted["output"], *ask("Go on.")], store=False, tools=[])
        check_events(events)
        texts = [getattr(item, "text", "") for item in served.model.requests[1].history]
    assert texts == ["[The earlier part of this conversation, summarised]\nThe word: slate.", "Go on."]


async def test_system_prompt() -> None:
    items = [*ask("Be a pirate.", role="system"), *ask("Greet me.")]
    async with serve_script([say("Arr.")]) as served:
        _, response = await post(served.url, "/responses", {"model": "default", "input": items})
    check_response(response)


async def test_tool_calling() -> None:
    async with serve_script([call("get_weather", location="Rome")]) as served:
        _, response = await post(
            served.url, "/responses", {"model": "default", "input": ask("Weather?"), "tools": [WEATHER]}
        )
    check_response(response)
    (item,) = response["output"]
    assert (item["type"], item["arguments"]) == ("function_call", '{"location":"Rome"}')
    assert len(item["call_id"]) <= 40
    check_fields(response["tools"][0], {"type": str, "name": str, "description": str, "parameters": dict})


async def test_image_input() -> None:
    parts = [{"type": "input_text", "text": "What is it?"}, {"type": "input_image", "image_url": PIXEL}]
    async with serve_script([say("A pixel.")]) as served:
        items = [{"type": "message", "role": "user", "content": parts}]
        _, response = await post(served.url, "/responses", {"model": "default", "input": items})
    check_response(response)


async def test_multi_turn() -> None:
    items = [*ask("I am Alice."), *ask("Hello Alice.", role="assistant"), *ask("Who am I?")]
    async with serve_script([say("Alice.")]) as served:
        _, response = await post(served.url, "/responses", {"model": "default", "input": items})
    check_response(response)


async def test_compact_response() -> None:
    body = {
        "model": "default",
        "prompt_cache_key": "a-key",
        "input": [*ask("We launch on Tuesday."), *ask("Noted.", role="assistant")],
    }
    async with serve_script([say("Launch: Tuesday.")]) as served:
        status, compacted = await post(served.url, "/responses/compact", body)
    assert status == 200
    check_fields(compacted, {"id": str, "object": str, "created_at": int, "output": list, "usage": dict})
    assert (compacted["object"], [item["type"] for item in compacted["output"]]) == (
        "response.compaction",
        ["compaction"],
    )
    check_fields(compacted["output"][0], ITEM_FIELDS["compaction"])
    check_fields(compacted["usage"], USAGE_FIELDS)


async def test_compact_needs_a_model() -> None:
    async with serve_script(lambda _: say("unused")) as served:
        status, body = await post(served.url, "/responses/compact", {"input": ask("Compact this.")})
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert served.model.requests == []
