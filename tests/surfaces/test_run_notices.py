"""A run that waits or failed says so in words on the endpoints of the seeds. The sentence is no part of the history."""

from contextlib import aclosing
from pathlib import Path

import pytest

from surfaces.api_client import ApiClient, Json, build_key, join_deltas, open_api_client
from surfaces.app_client import AppClient, user_message
from toolyard import tool
from toolyard.core.settings.texts import BUILT_IN_TEXTS, get_text
from toolyard.server.config import load
from toolyard.server.wiring import build_wiring
from toolyard.testing import Scripted, call, fail, say, together

WAITING = "`order` waits for an approval. Approve or deny it here, then go on: "
KEYS = [build_key("bob"), build_key("ann", "finance"), build_key("kim", "approver")]


@tool(approval="ask")
def order(item: str) -> str:
    """Order an item."""
    return f"ordered {item}"


@tool(approval="ask", approvers=["role:finance", "user:eve"])
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


TOOLS = [order, pay]


async def read_stream(http: ApiClient, path: str, body: Json, **headers: str) -> list[tuple[str, Json]]:
    return [event async for event in http.stream_post(path, body, accept="text/event-stream", **headers)]


def list_types(events: list[tuple[str, Json]]) -> list[str]:
    return [event["type"] for _, event in events]


def join_model_text(events: list[tuple[str, Json]]) -> str:
    return join_deltas([(event_id, event) for event_id, event in events if not event.get("notice")])


async def read_sentence(http: ApiClient, endpoint: str, path: str, text: str) -> str:
    """Send a message to a conversation by way of an endpoint, and return what a front end shows as the answer."""
    conversation = path.rsplit("/", 1)[1]
    match endpoint:
        case "chat":
            return (await http.post(f"{path}/chat", {"content": text}, expect=202))["assistant_message"]["content"]
        case "chat stream":
            return join_deltas(await read_stream(http, f"{path}/chat", {"content": text}))
        case "respond":
            return join_deltas(
                await read_stream(http, "/ai/respond", {"prompt": text, "conversation_id": conversation})
            )
        case "app":
            return (await AppClient(http).ask(text, conversationId=conversation))["message"]["content"]
        case _:
            body = {"messages": [user_message(text)], "conversationId": conversation}
            return join_deltas(await read_stream(http, "/chat/v1/conversation", body))


ENDPOINTS = ["chat", "chat stream", "respond", "app", "app stream"]
QUEUEING_ENDPOINTS = ["chat", "app", "app stream"]
"""The others answer a message behind a waiting run with a stream that stays open."""


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_a_waiting_run_says_what_it_waits_for_and_where_to_decide(endpoint: str) -> None:
    async with open_api_client([call("order", item="milk")], tools=TOOLS) as http:
        path = await http.create_conversation()
        sentence = await read_sentence(http, endpoint, path, "Order milk")
        assert sentence.startswith(WAITING)
        assert f"/#/chat/{path.rsplit('/', 1)[1]}?call=call_" in sentence


async def test_the_endpoints_say_what_v1_says() -> None:
    async with open_api_client([call("order", item="milk")] * 2, tools=TOOLS) as http:
        body = {"model": "default", "messages": [user_message("Order milk")]}
        _, completion, _ = await http.send_request("POST", "/v1/chat/completions", body)
        sentence = await read_sentence(http, "respond", await http.create_conversation(), "Order milk")
        assert completion["choices"][0]["message"]["content"].split("http")[0] == sentence.split("http")[0]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_the_models_text_comes_before_the_sentence(endpoint: str) -> None:
    async with open_api_client([together(say("One moment."), call("order", item="milk"))], tools=TOOLS) as http:
        sentence = await read_sentence(http, endpoint, await http.create_conversation(), "Order milk")
        assert sentence.startswith(f"One moment.\n\n{WAITING}")


async def test_who_waits_for_others_is_told_whom() -> None:
    async with open_api_client([call("pay", amount=5)] * 2, tools=TOOLS, keys=KEYS) as http:
        bob, ann = http.with_key("bob"), http.with_key("ann")
        sentence = await read_sentence(bob, "chat", await bob.create_conversation(), "Pay 5")
        assert sentence.startswith(
            "`pay` waits for the approval of the role finance or the user eve. Go on when it was decided: "
        )
        sentence = await read_sentence(ann, "chat", await ann.create_conversation(), "Pay 5")
        assert sentence.startswith("`pay` waits for an approval. Approve or deny it here")


@pytest.mark.parametrize("language", BUILT_IN_TEXTS)
async def test_the_sentence_is_in_the_callers_language(language: str) -> None:
    script = [together(call("order", item="milk"), call("pay", amount=5))]
    async with open_api_client(script, tools=TOOLS, keys=KEYS) as http:
        bob = http.with_key("bob")
        path = await bob.create_conversation()
        _, answer, _ = await bob.send_request("POST", f"{path}/chat", {"content": "x"}, accept_language=language)
        own, others = answer["assistant_message"]["content"].split("\n")
        assert own.startswith(get_text("waiting_approval", language).replace("{tool}", "order"))
        start, end = get_text("waiting_others", language).replace("{tool}", "pay").split("{approvers}")
        assert others.startswith(start) and end in others and "finance" in others and "eve" in others
        assert "{" not in own + others


async def test_an_operator_words_the_sentence(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text('[texts.en]\nwaiting_approval = "Please decide about {tool}:"')
    wiring = build_wiring(load(file, {}, {"store": "memory:"}), tmp_path)
    async with open_api_client([call("order", item="milk")], tools=TOOLS, texts=wiring.texts) as http:
        sentence = await read_sentence(http, "chat", await http.create_conversation(), "Order milk")
        assert sentence.startswith("Please decide about order: http")


async def test_the_sentence_is_marked_has_no_id_and_comes_before_done() -> None:
    async with open_api_client([call("order", item="milk")], tools=TOOLS) as http:
        path = await http.create_conversation()
        events = await read_stream(http, f"{path}/chat", {"content": "Order milk"})
        assert list_types(events) == ["approval.required", "text.delta", "done"]
        (asked_id, _), (notice_id, notice), (_, done) = events
        assert (notice_id, notice["notice"], done["ending"]) == (asked_id, "waiting", "waiting")
        async with aclosing(http.stream_events(f"{path}/events", "0")) as replayed:
            assert [await anext(replayed) for _ in events] == events


async def test_a_reader_that_resumes_loses_no_text_and_reads_none_twice() -> None:
    script = [together(say("One ", "moment."), call("order", item="milk")), say("Or", "dered.")]
    async with open_api_client(script, tools=TOOLS) as http:
        path = await http.create_conversation()
        answer = await http.post(f"{path}/chat", {"content": "Order milk"}, expect=202)
        await http.post(f"{path}/calls/{answer['waiting'][0]['call_id']}/approve")
        whole = await http.read_until_done(path, "0")
        assert join_model_text(whole) == "One moment.Ordered."
        assert [event.get("notice") for _, event in whole].count("waiting") == 1
        for event_id in {event_id for event_id, _ in whole[:-1]}:
            # A client has the objects up to the last one with that id, but for a sentence, which comes again.
            received = [event for event in whole if event[0] == event_id]
            seen = whole[: whole.index(received[-1]) + 1]
            rest = await http.read_until_done(path, event_id)
            assert join_model_text(seen) + join_model_text(rest) == "One moment.Ordered."


async def test_the_sentence_is_stored_nowhere_and_never_reaches_the_model() -> None:
    model = Scripted([call("order", item="milk"), say("Ordered."), say("You are welcome.")])
    async with open_api_client(model, tools=TOOLS) as http:
        path = await http.create_conversation()
        answer = await http.post(f"{path}/chat", {"content": "Order milk"}, expect=202)
        await http.post(f"{path}/calls/{answer['waiting'][0]['call_id']}/approve")
        await http.read_until_done(path)
        await http.post(f"{path}/chat", {"content": "Thanks"})
        assert "waits for" not in str(await http.list_messages(path))
        assert "waits for" not in str([list(request.history) for request in model.requests])
        _, export, _ = await http.send_request("GET", f"{path}/export?format=json")
        assert "ordered milk" in str(export) and "waits for" not in str(export)


@pytest.mark.parametrize("endpoint", ["respond", "app"])
@pytest.mark.parametrize("decided", [True, False])
async def test_a_sentence_that_a_client_sends_back_in_its_history_never_reaches_the_model(
    endpoint: str, decided: bool
) -> None:
    script = [together(say("One moment."), call("order", item="milk")), *([say("Ordered.")] * decided), say("Bye.")]
    model = Scripted(script)
    async with open_api_client(model, tools=TOOLS) as http:
        path = await http.create_conversation()
        answer = await http.post(f"{path}/chat", {"content": "Order milk"}, expect=202)
        if decided:
            await http.post(f"{path}/calls/{answer['waiting'][0]['call_id']}/approve")
            await http.read_until_done(path)
        history = [user_message("Order milk"), {"role": "assistant", "content": answer["assistant_message"]["content"]}]
        if endpoint == "respond":
            await read_stream(http, "/ai/respond", {"prompt": "Thanks", "history": history})
        else:
            await AppClient(http).post({"messages": [*history, user_message("Thanks")]})
        history_sent = str(list(model.requests[-1].history))
        assert "waits for" not in history_sent and "?call=" not in history_sent
        assert "One moment." in history_sent
        assert ("ordered milk" in history_sent) is decided, "what was done stands in its place"


@pytest.mark.parametrize("endpoint", QUEUEING_ENDPOINTS)
async def test_a_message_behind_a_waiting_run_gets_the_same_sentence(endpoint: str) -> None:
    async with open_api_client([call("order", item="milk")], tools=TOOLS) as http:
        path = await http.create_conversation()
        sentence = await read_sentence(http, "chat", path, "Order milk")
        assert await read_sentence(http, endpoint, path, "Are you there?") == sentence


@pytest.mark.parametrize("endpoint", ["chat", "respond"])
async def test_the_stream_of_a_message_behind_a_waiting_run_says_so_once_and_goes_on_when_it_is_decided(
    endpoint: str,
) -> None:
    script = [call("order", item="milk"), say("Ordered."), say("Yes.")]
    async with open_api_client(script, tools=TOOLS) as http:
        path = await http.create_conversation()
        answer = await http.post(f"{path}/chat", {"content": "Order milk"}, expect=202)
        sentence = answer["assistant_message"]["content"]
        url, body = f"{path}/chat", {"content": "Are you there?"}
        if endpoint == "respond":
            url, body = "/ai/respond", {"prompt": "Are you there?", "conversation_id": path.rsplit("/", 1)[1]}
        received: list[Json] = []
        async with aclosing(http.stream_post(url, body, accept="text/event-stream")) as events:
            async for _, event in events:
                received.append(event)
                if event.get("notice"):
                    await http.post(f"{path}/calls/{answer['waiting'][0]['call_id']}/approve")
        assert [event["type"] for event in received] == ["text.delta", "text.delta", "done"]
        assert [event.get("content") for event in received] == [f"{sentence}\n\n", "Yes.", None]


async def test_a_message_behind_a_run_that_waits_for_an_application_is_told_so() -> None:
    async with open_api_client([call("search_products", query="milk")]) as http:
        answer = await AppClient(http).ask("Find milk")
        path = f"/conversations/{answer['conversationId']}"
        sentence = await read_sentence(http, "chat", path, "Are you there?")
        assert sentence == "`search_products` waits for the application that runs it."


@pytest.mark.parametrize("url", ["/ai/respond", "chat"])
async def test_a_failed_run_has_a_sentence_on_streams(url: str) -> None:
    async with open_api_client([fail("the provider is down")]) as http:
        path = await http.create_conversation()
        body: Json = {"prompt": "Hi", "language": "de"} if url != "chat" else {"content": "Hi", "language": "de"}
        stream_path = f"{path}/chat" if url == "chat" else url
        events = await read_stream(http, stream_path, body, prefer="respond-async")
        assert list_types(events) == ["text.delta", "error", "done"]
        assert events[0][1]["content"] == get_text("failed", "de")
        assert events[0][1]["notice"] == "failed"
