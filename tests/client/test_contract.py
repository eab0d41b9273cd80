"""Both clients of an application against the same server and the same faults: every call runs once, nothing is lost."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping

import msgspec
import pytest

from client.drivers import DRIVERS, Case, ClientRecord, build_package
from client.faults import FaultProxy, ProxyFault
from support import wait_for_event
from surfaces.api_client import build_key, build_yard
from surfaces.http_server import serve_yard
from toolyard import Limits, Yard, tool
from toolyard.core.conversation.events import ModelDelta, RunEnded, RunSuspended, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Citation, ImagePart, ModelText, Result, TextPart, UserMessage
from toolyard.core.ports import Model, ModelRequest
from toolyard.engine.access.authentication import LOCAL_ADMIN
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import Script, Scripted, Turn, call, say, together

CLIENTS = pytest.mark.parametrize("client", list(DRIVERS))
ADDED = "I've added milk to your cart!"
CART: Script = [
    call("search_products", query="milk"),
    together(call("add_to_cart", code="M1"), call("add_to_cart", code="M2")),
    say("I've added ", "milk ", "to your cart!"),
]
ONCE: list[tuple[str, dict[str, object]]] = [
    ("search_products", {"query": "milk"}),
    ("add_to_cart", {"code": "M1"}),
    ("add_to_cart", {"code": "M2"}),
]
SLOW_DOWN = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 24\r\nConnection: close\r\n\r\n{"error": "too quickly"}'
)
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

REFUSED = (
    b"HTTP/1.1 422 Unprocessable Content\r\nContent-Type: application/json\r\nContent-Length: 25\r\n"
    b'Connection: close\r\n\r\n{"error": "not this one"}'
)

TOO_LARGE = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

SIGN_IN = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 14\r\nConnection: close\r\n\r\n<h1>Hello</h1>"


class UnfinishedModel:
    """A model that begins and does not go on."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        yield TextAppended(turn=request.turn, offset=0, text="One ")
        await asyncio.Event().wait()

    async def close(self) -> None: ...


class CitingModel:
    """A model that says where its answer comes from."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        yield TextAppended(turn=request.turn, offset=0, text="It is so.")
        source = Citation(start=0, end=9, url="https://example.org/a")
        model_text = ModelText(
            id=request.clock.new_id("text"), at=request.clock.now(), text="It is so.", citations=(source,)
        )
        yield TurnEnded(items=(model_text,), finish="stop")

    async def close(self) -> None: ...


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    build_package()


YardAction = Callable[[Yard], Coroutine[None, None, None]]


def drive_client(
    client: str,
    script: Script | Model,
    faults: FaultProxy | None = None,
    case: Mapping[str, object] | None = None,
    meanwhile: YardAction | None = None,
    **wiring: object,
) -> ClientRecord:
    """What a client sees of a case, while somebody else does something, too."""

    async def run() -> ClientRecord:
        async with (
            asyncio.timeout(120),
            build_yard(script, **wiring) as yard,
            serve_yard(yard) as url,
            (faults or FaultProxy()).serve_before(url) as proxy,
            asyncio.TaskGroup() as others,
        ):
            if meanwhile is not None:
                others.create_task(meanwhile(yard))
            return await DRIVERS[client](Case(url=proxy, **(case or {})))  # pyright: ignore[reportArgumentType]

    return asyncio.run(run())


@pytest.mark.proves("000.cart-tools", "000.no-added-latency", "000.text-only-app")
@CLIENTS
def test_a_request_is_driven_to_its_end_with_one_post_for_each_turn(client: str) -> None:
    model, faults = Scripted(CART), FaultProxy()
    assert drive_client(client, model, faults) == ClientRecord(executed=ONCE, texts=[ADDED], finals=[("done", ADDED)])
    assert len(faults.posts) == 3, "a message, and the results of each turn"
    assert model.requests[0].system == "Be kind.\n\npage: home"
    offered = {tool.name: tool for tool in model.requests[0].offer.tools}
    assert offered["add_to_cart"].examples == ("Add milk",)
    assert offered["add_to_cart"].propose == ("We need milk",)
    assert offered["add_to_cart"].sources == {"code": "search_products"}
    assert [item.content for item in model.requests[2].history if isinstance(item, Result)][1:] == ['{"ok":true}'] * 2


@CLIENTS
def test_a_conversation_goes_on_with_the_next_message(client: str) -> None:
    model = Scripted([*_turns(CART), say("Bye")])
    record = drive_client(client, model, case={"say": ["Add milk", "Bye"]})
    assert record.texts == [ADDED, "Bye"] and len(model.requests[3].history) == 9


@CLIENTS
def test_images_go_with_a_message(client: str) -> None:
    model, image = Scripted([say("a cat")]), "data:image/png;base64,iVBORw0KGgo="
    assert drive_client(client, model, case={"say": ["What is this?"], "images": [image]}).texts == ["a cat"]
    (user_message,) = model.requests[0].history
    assert isinstance(user_message, UserMessage)
    assert user_message.parts == (TextPart(text="What is this?"), ImagePart(url=image))


@CLIENTS
def test_a_response_that_is_delivered_twice_runs_each_call_once(client: str) -> None:
    record = drive_client(client, CART, FaultProxy(always=ProxyFault(twice=True)))
    assert record.executed == ONCE and record.finals == [("done", ADDED)]


@CLIENTS
@pytest.mark.parametrize("after", range(8))
def test_a_connection_that_breaks_is_taken_up_from_the_last_event(client: str, after: int) -> None:
    """Each of the three posts is cut off after so many events; zero means that its answer is lost."""
    faults = FaultProxy(
        {1: ProxyFault(cut_after=after), 3: ProxyFault(cut_after=after), 5: ProxyFault(cut_after=after)}
    )
    record = drive_client(client, CART, faults)
    assert record.executed == ONCE and record.texts == [ADDED] and record.finals == [("done", ADDED)]


@CLIENTS
@pytest.mark.parametrize(("before", "after"), [(b"\n", b"\r\n"), (b": ", b":")], ids=["crlf", "close"])
def test_a_stream_that_a_proxy_has_written_anew_is_read(client: str, before: bytes, after: bytes) -> None:
    """With other ends of lines, or without a space after a field's name; and cut off, so that its place is named."""

    def rewritten(event: bytes) -> bytes:
        return event.replace(before, after) if before == b"\n" else re.sub(rb"(?m)^(id|data): ", rb"\1:", event)

    faults = FaultProxy({3: ProxyFault(cut_after=2, rewritten=rewritten)}, always=ProxyFault(rewritten=rewritten))
    record = drive_client(client, CART, faults)
    assert record.executed == ONCE and record.texts == [ADDED] and record.finals == [("done", ADDED)]


@CLIENTS
def test_a_page_of_somebody_else_is_no_answer(client: str) -> None:
    """As that of a network which wants its user to sign in first."""
    faults = FaultProxy({1: ProxyFault(answer=SIGN_IN)})
    record = drive_client(client, CART, faults)
    assert record.executed == ONCE and record.finals == [("done", ADDED)]


@CLIENTS
@pytest.mark.parametrize("answer", [UNAVAILABLE, SLOW_DOWN], ids=["503", "429"])
def test_a_message_whose_answer_is_lost_is_sent_again_and_runs_once(client: str, answer: bytes) -> None:
    """The second attempt does not reach the server, and the third one joins the run of the first."""
    faults = FaultProxy({1: ProxyFault(cut_after=0), 2: ProxyFault(answer=answer)})
    record = drive_client(client, CART, faults)
    assert record.executed == ONCE and record.finals == [("done", ADDED)]
    assert faults.posts[0] == faults.posts[1] == faults.posts[2] and "messages" in msgspec.json.decode(faults.posts[2])


@CLIENTS
def test_a_message_that_a_proxy_reports_as_failed_and_passes_on_later_runs_once(client: str) -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> Turn:
        prompts.append(request.history[-1].id)
        return say("Hello.")

    faults = FaultProxy({1: ProxyFault(answer=BAD_GATEWAY, late=True)})
    assert drive_client(client, answer, faults).finals == [("done", "Hello.")]
    assert len(prompts) == 1


@CLIENTS
def test_results_whose_answer_is_lost_are_sent_again_with_the_same_body(client: str) -> None:
    faults = FaultProxy({2: ProxyFault(cut_after=0)})
    record = drive_client(client, CART, faults)
    assert record.executed == ONCE and record.finals == [("done", ADDED)]
    assert faults.posts[1] == faults.posts[2] and "toolResults" in msgspec.json.decode(faults.posts[1])
    assert len(faults.posts) == 4


@CLIENTS
def test_a_server_that_is_away_for_a_moment_is_waited_for(client: str) -> None:
    record = drive_client(
        client, CART, FaultProxy({1: ProxyFault(answer=UNAVAILABLE), 3: ProxyFault(answer=UNAVAILABLE)})
    )
    assert record.executed == ONCE and record.texts == [ADDED]


@CLIENTS
def test_429_is_waited_out_as_long_as_the_server_says(client: str) -> None:
    faults = FaultProxy({1: ProxyFault(answer=SLOW_DOWN)})
    assert drive_client(client, CART, faults).finals == [("done", ADDED)]
    assert faults.times[1] - faults.times[0] >= 0.95 and faults.posts[0] == faults.posts[1]


@CLIENTS
@pytest.mark.parametrize("after", [b"0", b"-1", b"soon"])
def test_however_soon_429_says_to_come_again_there_is_a_pause(client: str, after: bytes) -> None:
    faults = FaultProxy({1: ProxyFault(answer=SLOW_DOWN.replace(b"Retry-After: 1", b"Retry-After: " + after))})
    assert drive_client(client, CART, faults).finals == [("done", ADDED)]
    assert faults.times[1] - faults.times[0] >= 0.95


@CLIENTS
@pytest.mark.parametrize("moment", ["tool", "text"])
def test_stop_ends_the_request_here_and_on_the_server(client: str, moment: str) -> None:
    model = UnfinishedModel() if moment == "text" else Scripted([call("for_ever")])
    record = drive_client(client, model, case={"stop": moment})
    assert record.finals == [("cancelled", "One " if moment == "text" else None)]
    assert record.executed == ([("for_ever", {})] if moment == "tool" else [])


@CLIENTS
def test_a_message_that_is_stopped_on_its_way_is_stopped_when_it_arrives(client: str) -> None:
    record = drive_client(client, UnfinishedModel(), case={"stop": "early"})
    assert [reason for reason, _ in record.finals] == ["cancelled"]


@CLIENTS
def test_a_message_that_is_stopped_while_it_waits_is_not_sent(client: str) -> None:
    faults = FaultProxy(always=ProxyFault(answer=SLOW_DOWN))
    record = drive_client(client, [], faults, {"stop": "early"})
    assert record.finals == [("cancelled", None)] and len(faults.posts) == 1


@CLIENTS
def test_a_message_that_may_have_been_taken_is_sent_again_to_stop_its_run(client: str) -> None:
    faults = FaultProxy({1: ProxyFault(answer=BAD_GATEWAY), 2: ProxyFault(answer=SLOW_DOWN)})
    record = drive_client(client, UnfinishedModel(), faults, {"stop": "early"})
    assert [reason for reason, _ in record.finals] == ["cancelled"]
    assert len(faults.posts) >= 3 and faults.posts[0] == faults.posts[1] == faults.posts[2]


@CLIENTS
def test_what_the_server_says_against_a_message_is_told_though_it_was_stopped(client: str) -> None:
    record = drive_client(client, [], FaultProxy(always=ProxyFault(answer=REFUSED)), {"stop": "early"})
    assert record.finals == [] and record.failure == "not this one"


@CLIENTS
async def test_a_message_that_is_stopped_in_line_leaves_the_one_in_front_alone(client: str) -> None:
    @tool(approval="ask")
    def pay() -> str:
        """Pay."""
        return "paid"

    async with (
        asyncio.timeout(120),
        build_yard([call("pay"), say("Paid.")], tools=[pay]) as yard,
        serve_yard(yard) as url,
    ):
        asking, first = await wait_for_event(yard.run("Pay"), RunSuspended)
        record = await DRIVERS[client](Case(url=url, conversation=first.conversation, stop="early"))
        assert record.finals == [("cancelled", None)]
        await yard.approve(first.conversation, asking.waiting_for[0])
        ended = [event async for event in first][-1]
        assert isinstance(ended, RunEnded) and ended.ending == "done"


@CLIENTS
def test_a_stop_that_does_not_reach_the_server_is_told_again(client: str) -> None:
    record = drive_client(client, [call("for_ever")], FaultProxy(stops=[UNAVAILABLE]), {"stop": "tool"})
    assert record.finals == [("cancelled", None)] and record.failure == ""


@CLIENTS
def test_after_a_stop_the_server_is_not_asked_without_a_pause(client: str) -> None:
    """The answer to the message is lost, and so is that to the second attempt."""
    faults = FaultProxy({1: ProxyFault(cut_after=0), 2: ProxyFault(answer=UNAVAILABLE)})
    record = drive_client(client, UnfinishedModel(), faults, {"stop": "early"})
    assert [reason for reason, _ in record.finals] == ["cancelled"]
    assert faults.times[2] - faults.times[1] >= 0.45


@CLIENTS
def test_a_limit_is_told_with_its_reason(client: str) -> None:
    def for_ever(request: ModelRequest) -> Turn:
        return call("search_products", query="milk")

    record = drive_client(client, Scripted(for_ever), limits=Limits(turns_per_request=3))
    assert len(record.executed) == 3 and [reason for reason, _ in record.finals] == ["max_tool_turns"]


@pytest.mark.proves("000.division-scoped")
@CLIENTS
def test_a_tool_is_told_for_which_division_its_call_is(client: str) -> None:
    who = build_key("ann", divisions=frozenset({"clothing"}))
    record = drive_client(client, [call("whose"), say("ok")], case={"key": "ann"}, keys=[who])
    assert record.executed == [("whose", {"division": "clothing"})]


@CLIENTS
def test_what_a_tool_throws_the_model_is_told(client: str) -> None:
    model = Scripted([call("sold_out"), say("Sorry")])
    assert drive_client(client, model).texts == ["Sorry"]
    (call_result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert call_result.error is not None
    assert (call_result.error.error, call_result.error.error_type, call_result.error.details) == (
        "sold out",
        "not_found",
        {"code": "M1"},
    )


@CLIENTS
def test_what_a_tool_throws_is_cut_to_what_the_server_takes(client: str) -> None:
    model = Scripted([call("wordy"), say("Sorry")])
    assert drive_client(client, model).texts == ["Sorry"]
    (call_result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert call_result.error is not None and call_result.error.error == ("no " * 10_000)[:4000]
    assert call_result.error.error_type == "execution_error"


@CLIENTS
def test_a_result_that_is_too_large_ends_as_an_error_and_the_others_are_kept(client: str) -> None:
    calls_turn = together(call("huge"), call("search_products", query="milk"))
    model = Scripted([calls_turn, say("Sorry")])
    assert drive_client(client, model).texts == ["Sorry"]
    huge, search_result = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert huge.error is not None and huge.error.error_type == "too_large" and "return a link" in huge.error.error
    assert search_result.content == '{"products":[{"code":"M1"}]}'


@CLIENTS
def test_results_that_are_too_large_together_are_sent_one_after_the_other(client: str) -> None:
    names = ("large", "large", "large")
    model = Scripted([together(*(call(name) for name in names)), say("ok")])
    record = drive_client(client, model)
    assert record.executed == [(name, {}) for name in names] and record.texts == ["ok"]
    sizes = [item.whole_bytes for item in model.requests[1].history if isinstance(item, Result)]
    assert sizes == [3_000_000] * 3


@CLIENTS
def test_a_result_that_a_proxy_finds_too_large_ends_as_an_error(client: str) -> None:
    model = Scripted([call("large"), say("Sorry")])
    assert drive_client(client, model, FaultProxy({2: ProxyFault(answer=TOO_LARGE)})).texts == ["Sorry"]
    (call_result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert call_result.error is not None and call_result.error.error_type == "too_large"


@CLIENTS
def test_a_server_that_takes_no_result_at_all_is_told_to_the_app(client: str) -> None:
    faults = FaultProxy({number: ProxyFault(answer=TOO_LARGE) for number in (2, 4)})
    record = drive_client(client, [call("large")], faults)
    assert "413" in record.failure and len(faults.posts) == 4


@CLIENTS
@pytest.mark.parametrize("name", ["odd", "deep"])
def test_what_no_server_can_read_ends_as_an_error(client: str, name: str) -> None:
    model = Scripted([together(call(name), call("search_products", query="milk")), say("Sorry")])
    record = drive_client(client, model)
    assert record.texts == ["Sorry"] and len(record.executed) == 2, record
    odd_result, search_result = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert odd_result.outcome == "error" and search_result.outcome == "ok"


@CLIENTS
def test_half_a_character_does_no_harm(client: str) -> None:
    model = Scripted([call("half_character"), say("ok")])
    assert drive_client(client, model, case={"say": ["half \ud83d"]}).texts == ["ok"]
    user_message, *_, call_result = model.requests[1].history
    assert isinstance(user_message, UserMessage) and user_message.text[:-1] == "half "
    assert isinstance(call_result, Result)


@CLIENTS
def test_a_call_that_another_device_has_answered_first_makes_none_run_again(client: str) -> None:
    """Both results come too late together; the one that still waits is sent again, not run again."""
    yards: list[Yard] = []

    async def be_first(body: bytes) -> None:
        conversation, call_id = parse_call_id(msgspec.json.decode(body)["toolResults"][0]["toolCallId"])
        await yards[0].deliver(conversation, call_id, {"ok": "elsewhere"})

    async def remember(yard: Yard) -> None:
        yards.append(yard)

    model = Scripted(CART)
    record = drive_client(client, model, FaultProxy({3: ProxyFault(meanwhile=be_first)}), meanwhile=remember)
    assert record.executed == ONCE and record.finals == [("done", ADDED)]
    contents = [item.content for item in model.requests[2].history if isinstance(item, Result)]
    assert contents[1:] == ['{"ok":"elsewhere"}', '{"ok":true}']


@CLIENTS
def test_a_request_that_another_device_has_ended_and_gone_on_from_comes_to_an_end(client: str) -> None:
    yards: list[Yard] = []

    async def go_on(body: bytes) -> None:
        conversation, call_id = parse_call_id(msgspec.json.decode(body)["toolResults"][0]["toolCallId"])
        await yards[0].deliver(conversation, call_id, {"products": []})
        assert await yards[0].ask("And butter?", conversation=conversation) == "No butter."

    async def remember(yard: Yard) -> None:
        yards.append(yard)

    script = [call("search_products", query="milk"), say("No milk."), say("No butter.")]
    faults = FaultProxy({2: ProxyFault(meanwhile=go_on)})
    record = drive_client(client, script, faults, meanwhile=remember)
    assert record.finals == [("done", "No butter.")] and "somebody else has ended run" in record.failure
    assert len(faults.posts) == 4, "a message, its results, how it went on, and whether that is the end"


def drive_payment(client: str, faults: FaultProxy) -> ClientRecord:
    """Somebody else approves of a payment once the client follows what becomes of it."""

    @tool(approval="ask")
    def pay() -> str:
        """Pay."""
        return "paid"

    async def approve(yard: Yard) -> None:
        await faults.followed.wait()
        (card,) = await yard.service.conversations.list_cards(LOCAL_ADMIN)
        (asking,) = (await yard.service.conversations.view(card.id)).calls_in("asking")
        await yard.approve(card.id, asking.call.id)

    return drive_client(client, [call("pay"), say("Paid.")], faults, meanwhile=approve, tools=[pay])


@CLIENTS
def test_what_somebody_else_has_to_approve_is_waited_for(client: str) -> None:
    faults = FaultProxy()
    record = drive_payment(client, faults)
    assert record.texts == ["Paid."] and record.finals == [("done", "Paid.")]


@CLIENTS
@pytest.mark.parametrize("answer", [SIGN_IN, SLOW_DOWN], ids=["page", "429"])
def test_what_cannot_be_followed_is_not_asked_for_without_a_pause(client: str, answer: bytes) -> None:
    faults = FaultProxy(follows=[answer])
    record = drive_payment(client, faults)
    assert record.finals == [("done", "Paid.")]
    assert faults.follow_times[1] - faults.follow_times[0] >= 0.45


@CLIENTS
def test_a_tool_that_does_not_end_in_time_ends_as_an_error(client: str) -> None:
    model = Scripted([call("too_slow"), say("Sorry")])
    assert drive_client(client, model).texts == ["Sorry"]
    (call_result,) = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert call_result.error is not None and call_result.error.error_type == "timeout"


@CLIENTS
def test_a_key_that_is_not_known_is_said_at_once(client: str) -> None:
    faults = FaultProxy()
    record = drive_client(client, [], faults, {"key": "wrong"}, keys=[build_key("ann")])
    assert "not known here" in record.failure and len(faults.posts) == 1


def _turns(script: Script) -> list[Turn]:
    assert not callable(script)
    return list(script)


@CLIENTS
def test_the_app_is_told_where_an_answer_comes_from(client: str) -> None:
    record = drive_client(client, CitingModel())
    assert (record.texts, record.cited) == (["It is so."], [(0, 9, "https://example.org/a")])
