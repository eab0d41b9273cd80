"""`POST /chat/v1/conversation`: both ways of an application, through the same loop and the same journal."""

import asyncio

import pytest

from surfaces.api_client import both_ways, open_api_client
from surfaces.app_client import PATH, SEARCH, TOOLS, AppClient, build_tool_results, user_message
from toolyard import tool
from toolyard.core.items import ImagePart, Result, TextPart, UserMessage
from toolyard.testing import Scripted, call, say, together

MILK = {"products": [{"code": "M1", "name": "Full Cream Milk"}]}
CART_SCRIPT = [
    call("search_products", query="milk"),
    call("add_to_cart", code="M1"),
    say("I've added ", "Full Cream Milk to your cart!"),
]


@pytest.mark.proves(
    "000.app-tools-offered",
    "000.base-prompt-extended",
    "000.call-handed-to-app",
    "000.context-given",
    "000.endpoint",
    "000.final-response",
)
@both_ways
async def test_milk_gets_into_the_cart_as_the_seed_draws_it(way: str) -> None:
    model = Scripted(CART_SCRIPT)

    async with open_api_client(model, way, system_prompt="You keep a shop.") as http:
        app = AppClient(http)
        first = await app.ask("Add milk to my cart", systemPrompt="Speak as a grocer.", context={"cart": {"items": 0}})
        (search,) = first["toolCalls"]
        assert first["type"] == "tool_calls"
        assert (search["name"], search["arguments"]) == ("search_products", {"query": "milk"})
        second = await app.post(build_tool_results(first, MILK))
        assert [call["name"] for call in second["toolCalls"]] == ["add_to_cart"]
        last = await app.post(build_tool_results(second, {"ok": True}))
        assert last["type"] == "message" and last["stopReason"] == "done"
        assert last["message"] == {"role": "assistant", "content": "I've added Full Cream Milk to your cart!"}
        assert first["conversationId"] == second["conversationId"] == last["conversationId"]
        assert first["correlationId"] == last["correlationId"] and first["runId"] == last["runId"]
    assert [request.system for request in model.requests] == [
        'You keep a shop.\n\nSpeak as a grocer.\n\ncart: {"items":0}'
    ] * 3
    assert [tool.name for tool in model.requests[0].offer.tools] == ["search_products", "add_to_cart", "go_to_checkout"]
    result_texts = [item.content for item in model.requests[2].history if isinstance(item, Result)]
    assert result_texts == ['{"products":[{"code":"M1","name":"Full Cream Milk"}]}', '{"ok":true}']


async def test_the_stateless_way_leads_back_by_the_ids_that_were_handed_out() -> None:
    model = Scripted(CART_SCRIPT)
    async with open_api_client(model) as http:
        app, messages = AppClient(http), [user_message("Add milk to my cart")]
        answer = await app.post({"messages": messages, "tools": TOOLS})
        for result in (MILK, {"ok": True}):
            messages.append({"role": "assistant", "content": None, "toolCalls": answer["toolCalls"]})
            messages += [{"role": "tool", "toolCallId": call["id"], "content": result} for call in answer["toolCalls"]]
            answer = await app.post({"messages": messages, "tools": TOOLS})
        assert answer["message"]["content"] == "I've added Full Cream Milk to your cart!"
        assert len(await app.list_conversations()) == 1
    kinds = [type(item).__name__ for item in model.requests[2].history]
    assert kinds == ["UserMessage", "Call", "Result", "Call", "Result"]


async def test_calls_in_the_shape_of_chat_completions_are_taken_as_well() -> None:
    async with open_api_client([call("search_products", query="milk"), say("found")]) as http:
        app = AppClient(http)
        (handed,) = (await app.ask("milk"))["toolCalls"]
        function = {"name": "search_products", "arguments": '{"query": "milk"}'}
        calls_message = {
            "role": "assistant",
            "tool_calls": [{"id": handed["id"], "type": "function", "function": function}],
        }
        result_message = {"role": "tool", "tool_call_id": handed["id"], "content": "Full Cream Milk"}
        assert (await app.post({"messages": [user_message("milk"), calls_message, result_message]}))[
            "stopReason"
        ] == "done"


async def test_images_of_a_message_reach_the_model_however_they_are_written() -> None:
    model = Scripted([say("a cat"), say("another")])
    inline = "data:image/png;base64,iVBORw0KGgo="
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://a.example/cat.png"}},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]
    async with open_api_client(model) as http:
        app = AppClient(http)
        first = await app.post({"messages": [{"role": "user", "content": content}]})
        later = [{"type": "image", "url": inline}]
        body = {"conversationId": first["conversationId"], "messages": [{"role": "user", "content": later}]}
        assert (await app.post(body))["message"]["content"] == "another"
    message_parts = [item.parts for item in model.requests[1].history if isinstance(item, UserMessage)]
    assert message_parts == [
        (TextPart(text="What is this?"), ImagePart(url="https://a.example/cat.png"), ImagePart(url=inline)),
        (ImagePart(url=inline),),
    ]


async def test_a_request_that_carries_its_history_is_not_kept_unless_it_says_so() -> None:
    history = [user_message("I am Ann"), {"role": "assistant", "content": "Hi Ann"}, user_message("Who am I?")]
    async with open_api_client([say("Ann"), say("Ann"), say("Hello"), say("Ann")]) as http:
        app = AppClient(http)
        answer = await app.post({"messages": history})
        assert answer["message"]["content"] == "Ann" and answer["kept"] is False
        await app.wait_for_conversations()
        await app.post(
            {"conversationId": answer["conversationId"], "messages": [user_message("Still there?")]}, expect=404
        )
        asked_for = await app.post({"messages": history, "keep": True})
        await app.wait_for_conversations(asked_for["conversationId"])
        assert (await app.post({"messages": [user_message("Hi")], "keep": False}))["kept"] is False
        streamed = await app.collect_objects({"messages": history})
        assert streamed[-2]["kept"] is False
        await app.wait_for_conversations(asked_for["conversationId"])


async def test_respond_with_a_history_is_not_kept_either() -> None:
    history = [{"role": "user", "content": "I am Ann"}, {"role": "assistant", "content": "Hi Ann"}]
    async with open_api_client([say("Ann"), say("Ann")]) as http:
        app = AppClient(http)
        async for _ in http.stream_post("/ai/respond", {"prompt": "Who am I?", "history": history}):
            pass
        await app.wait_for_conversations()
        async for _ in http.stream_post("/ai/respond", {"prompt": "Who am I?", "history": history, "keep": True}):
            pass
        assert len(await app.list_conversations()) == 1


async def test_a_run_that_nobody_reads_any_more_ends_and_is_forgotten() -> None:
    go_on = asyncio.Event()

    @tool
    async def slow() -> str:
        """Waits."""
        await go_on.wait()
        return "done"

    async with open_api_client([call("slow"), say("ok")], tools=[slow]) as http:
        app = AppClient(http)
        body = {"messages": [user_message("a"), {"role": "assistant", "content": "b"}, user_message("c")]}
        async for _, event in app.stream(body):
            if event["type"] == "tool.status":
                break
        assert len(await app.list_conversations()) == 1
        go_on.set()
        await app.wait_for_conversations()


async def test_a_conversation_goes_on_by_its_id_and_only_what_is_new_is_added() -> None:
    model = Scripted([say("Hi Ann"), say("Ann"), say("Ann again")])
    async with open_api_client(model) as http:
        app = AppClient(http)
        first = await app.post({"messages": [user_message("I am Ann")], "context": {"page": "home"}})
        more = {"conversationId": first["conversationId"]}
        await app.post({**more, "messages": [user_message("Who am I?")], "context": {"page": "cart"}})
        assistant_message = {"role": "assistant", "content": "Ann"}
        await app.post(
            {
                **more,
                "messages": [user_message("I am Ann"), assistant_message, user_message("And now?")],
                "systemPrompt": "Be short.",
            }
        )
    texts = [item.text for item in model.requests[2].history if isinstance(item, UserMessage)]
    assert texts == ["I am Ann", "Who am I?", "And now?"]
    assert [request.system for request in model.requests] == ["page: home", "page: cart", "Be short.\n\npage: cart"]


async def test_app_calls_are_returned_together_while_a_sibling_runs_on_the_server() -> None:
    go_on = asyncio.Event()

    @tool
    async def stock() -> int:
        """How many."""
        await go_on.wait()
        return 7

    model = Scripted(
        [together(call("search_products", query="a"), call("stock"), call("add_to_cart", code="M1")), say("ok")]
    )
    async with open_api_client(model, tools=[stock]) as http:
        app = AppClient(http)
        first = await app.ask("go")
        assert [call["name"] for call in first["toolCalls"]] == ["search_products", "add_to_cart"]
        remaining = await app.post({**build_tool_results({**first, "toolCalls": first["toolCalls"][:1]}, MILK)})
        assert remaining["toolCalls"] == first["toolCalls"][1:]
        waiting = asyncio.ensure_future(app.post(build_tool_results(remaining, {"ok": True})))
        go_on.set()
        assert (await waiting)["message"]["content"] == "ok"
    result_texts = [item.content for item in model.requests[1].history if isinstance(item, Result)]
    assert result_texts[1:] == ["7", '{"ok":true}']


async def test_a_stream_shows_our_objects_then_the_answer_then_done() -> None:
    async with open_api_client([call("search_products", query="milk"), say("I am ", "done")]) as http:
        app = AppClient(http)
        first = await app.collect_objects({"messages": [user_message("go")], "tools": TOOLS})
        assert [event["type"] for event in first] == ["started", "tool.status", "client.call", "tool_calls", "done"]
        assert first[-1]["ending"] == "waiting" and first[0]["conversationId"] == first[3]["conversationId"]
        remaining = await app.collect_objects(build_tool_results(first[3], MILK))
        assert [event["type"] for event in remaining] == [
            "started",
            "tool.status",
            "text.delta",
            "text.delta",
            "message",
            "done",
        ]
        assert remaining[1]["state"] == "finished" and remaining[-2]["message"]["content"] == "I am done"


async def test_whoever_lost_the_answer_learns_how_it_went_on_by_the_conversations_id() -> None:
    async with open_api_client([call("search_products", query="milk"), say("found it")]) as http:
        app = AppClient(http)
        received = [pair async for pair in app.stream({"messages": [user_message("go")], "tools": TOOLS})]
        places = [event_id for event_id, _ in received]
        conversation = {"conversationId": received[0][1]["conversationId"]}
        assert (await app.post(conversation))["toolCalls"][0]["name"] == "search_products"
        again = await app.collect_objects(conversation, last_event_id=places[1])
        assert [event["type"] for event in again] == ["started", "client.call", "tool_calls", "done"]
        await app.post(build_tool_results(again[2], MILK))
        assert (await app.post(conversation))["message"]["content"] == "found it"
        replayed = await app.collect_objects(conversation, last_event_id=places[-1])
        assert [event["type"] for event in replayed] == ["started", "tool.status", "text.delta", "message", "done"]
        over = await app.collect_objects(conversation)
        assert [event["type"] for event in over] == ["started", "message", "done"]


async def test_a_message_behind_a_run_that_waits_is_told_what_that_waits_for_and_may_interrupt_it() -> None:
    async with open_api_client([call("search_products", query="milk"), say("2"), say("3")]) as http:
        app = AppClient(http)
        first = await app.ask("one")
        named = {"conversationId": first["conversationId"]}
        behind = await app.ask("two", **named)
        assert behind["toolCalls"] == first["toolCalls"] and behind["runId"] == first["runId"]
        third = await app.ask("three", **named, interrupt=True)
        assert third["message"]["content"] == "3"  # after the one that was in line before it
        await app.post(build_tool_results(first, MILK), expect=409)


async def test_a_conversation_is_named_after_the_users_first_words() -> None:
    image = {"type": "image", "url": "https://example.org/milk.png"}
    async with open_api_client([say("ok")] * 4) as http:
        app = AppClient(http)
        first = await app.ask("  Add milk\nto my cart ")
        await app.ask("And bread", conversationId=first["conversationId"])
        pictured = [{"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]}]
        await app.post({"messages": pictured})
        history = [user_message("Hello"), {"role": "assistant", "content": "Hi"}, user_message("Find milk")]
        await app.post({"messages": history, "keep": True})
        titles = [card["title"] for card in (await http.get("/conversations"))["conversations"]]
        assert sorted(titles) == ["Add milk to my cart", "Hello", "What is this?"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"annotations": {"destructiveHint": True}}, (False, True, False, False)),
        ({"annotations": {"openWorldHint": True}}, (False, False, True, False)),
        ({"annotations": {"readOnlyHint": True, "idempotentHint": True}}, (False, False, False, False)),
        ({"readOnly": True, "annotations": {"readOnlyHint": False}}, (False, False, False, False)),
        ({"readOnly": True, "annotations": {"destructiveHint": True}}, (False, True, False, False)),
        ({"idempotent": True, "annotations": {"idempotentHint": False}}, (False, False, False, False)),
        ({"destructive": True, "annotations": {"destructiveHint": False}}, (False, True, False, False)),
        ({"openWorld": True, "annotations": {"openWorldHint": False}}, (False, False, True, False)),
        ({"readOnly": True, "annotations": {"destructiveHint": "yes"}}, (True, False, False, False)),
        ({"readOnly": True, "annotations": "none"}, (True, False, False, False)),
    ],
)
async def test_mcp_annotations_of_an_app_s_tool_count_towards_caution_only(
    fields: dict[str, object], expected: tuple[bool, ...]
) -> None:
    model = Scripted([say("ok")])
    async with open_api_client(model) as http:
        body = {"messages": [user_message("go")], "tools": [{**SEARCH, **fields}]}
        assert (await http.send_request("POST", PATH, body))[0] == 200
        (tool,) = [tool for tool in model.requests[0].offer.tools if tool.name == "search_products"]
        assert (tool.read_only, tool.destructive, tool.open_world, tool.idempotent) == expected
