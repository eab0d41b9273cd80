"""What went to a model and came back: kept where that was asked for, shown to operators, and never with a secret."""

from surfaces.api_client import ApiClient, build_key, build_yard, connect_api_client
from toolyard import Caller, Context, tool
from toolyard.core.items import Call
from toolyard.core.ports import RECORDED_TURN_PREFIX, Failure, Value
from toolyard.models.chat import OpenAIChat
from toolyard.stores.memory import MemoryStore
from toolyard.venues.builtin.read_result import READ_RESULT, ReadResultVenue
from wire.strict import refuses
from wire.strict_chat import StrictChat, asks, says

SECRET = "sk-very-secret-0123456789"
KEYS = [build_key("ann", tenant=""), build_key("olga", "operator", tenant="")]


@tool
def login(password: str) -> str:
    """Let somebody in."""
    return "welcome"


async def get_turn(http: ApiClient, conversation: str, number: int, expect: int = 200) -> dict[str, object]:
    (run,) = (await http.with_key("ann").get(f"/traces?conversation={conversation.rpartition('/')[2]}"))["runs"]
    answer = await http.with_key("olga").get(f"{conversation}/runs/{run['run_id']}/turns/{number}", expect=expect)
    return answer["turn"] if expect == 200 else answer


async def test_each_turn_is_kept_as_it_went_over_the_wire_with_secrets_left_out() -> None:
    async def run() -> None:
        strict = StrictChat(asks(("login", {"password": "hunter2"})), says("You are in."))
        async with strict.serving() as base_url:
            model = OpenAIChat(base_url=base_url, model="m", api_key=SECRET)
            async with (
                build_yard(
                    model, tools=[login], keys=KEYS, keep_requests=True, system_prompt="Guard the door."
                ) as yard,
                connect_api_client(yard) as http,
            ):
                conversation = await http.with_key("ann").create_conversation("In")
                await http.with_key("ann").send_request("POST", f"{conversation}/chat", {"content": "let me in"})
                first, second = [await get_turn(http, conversation, number) for number in (1, 2)]
                assert first["url"] == f"{base_url}/chat/completions"
                assert "let me in" in str(first["request"]) and "Guard the door." in str(first["request"])
                assert "You are in." in str(second["response"]) and second["cut"] is False
                assert SECRET not in str(first) + str(second)
                assert (await http.with_key("olga").get("/me"))["keeps_requests"] is True
                await get_turn(http, conversation, 3, expect=404)
                (run,) = (await http.with_key("ann").get("/traces"))["runs"]
                await http.with_key("ann").get(f"{conversation}/runs/{run['run_id']}/turns/1", expect=403)

    await run()


async def test_operators_of_a_tenant_see_what_was_sent_but_not_where_to() -> None:
    async with StrictChat(says("Hi.")).serving() as base_url:
        model = OpenAIChat(base_url=base_url, model="m")
        keys = [build_key("ann"), build_key("olga", "operator")]
        async with build_yard(model, keys=keys, keep_requests=True) as yard, connect_api_client(yard) as http:
            conversation = await http.with_key("ann").create_conversation("Hi")
            await http.with_key("ann").send_request("POST", f"{conversation}/chat", {"content": "hello"})
            turn = await get_turn(http, conversation, 1)
            assert "hello" in str(turn["request"]) and base_url not in str(turn)
            assert turn["url"] == "" and turn["headers"] == {}


async def test_nothing_is_kept_unless_it_was_asked_for() -> None:
    async with StrictChat(says("Hi.")).serving() as base_url:
        model = OpenAIChat(base_url=base_url, model="m")
        async with build_yard(model, keys=KEYS) as yard, connect_api_client(yard) as http:
            conversation = await http.with_key("ann").create_conversation("Hi")
            await http.with_key("ann").send_request("POST", f"{conversation}/chat", {"content": "hi"})
            await get_turn(http, conversation, 1, expect=404)


async def test_a_turn_that_failed_is_kept_too() -> None:
    async with StrictChat(refuses(400, "no such model")).serving() as base_url:
        model = OpenAIChat(base_url=base_url, model="m")
        async with build_yard(model, keys=KEYS, keep_requests=True) as yard, connect_api_client(yard) as http:
            conversation = await http.with_key("ann").create_conversation("Hi")
            await http.with_key("ann").send_request("POST", f"{conversation}/chat", {"content": "hi"})
            turn = await get_turn(http, conversation, 1)
            assert "'hi'" in str(turn["request"]) and turn["response"] == ""


async def test_a_model_cannot_read_what_was_kept() -> None:
    store = MemoryStore()
    for handle in ("result_1", f"{RECORDED_TURN_PREFIX}run_1.1"):
        await store.put_blob("c", handle, b"what was kept")
    context = Context(
        caller=Caller(), conversation="c", run_id="run_1", call_id="call_1", correlation_id="", idempotency_key="",
        attempt=1, deadline=0.0, progress=print,
    )  # fmt: skip
    for handle, kind in (("result_1", Value), (f"{RECORDED_TURN_PREFIX}run_1.1", Failure)):
        call = Call(id="call_1", at=0.0, tool="read_result", arguments={"handle": handle})
        assert isinstance(await ReadResultVenue(store).run(call, READ_RESULT, context), kind)
