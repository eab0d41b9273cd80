"""A client's own retry never starts a second run: it joins the first one's."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from openai import RateLimitError

from surfaces.api_client import Json, build_yard
from surfaces.http_server import connect_client
from surfaces.openai.clients import HELLO, Served, answer_calls, define_tool, list_calls, list_exchange, serve_script
from toolyard import tool
from toolyard.stores.memory import MemoryStore
from toolyard.testing import Script, call, fail, say, together

PHOTO = define_tool("take_photo", of={"type": "string"})
RETRY = {"x-stainless-retry-count": "1"}
effects: list[str] = []


@tool
def charge(amount: int) -> str:
    """Charge an amount."""
    effects.append(f"charged {amount}")
    return "charged"


@pytest.fixture(autouse=True)
def start_without_effects() -> None:
    effects.clear()


@asynccontextmanager
async def serve(script: Script, store: str = "memory:") -> AsyncGenerator[Served, None]:
    async with serve_script(script, [charge], store=store) as served:
        yield served


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_retry_joins_the_run_and_a_new_request_with_the_same_body_does_not(kind: str, tmp_path: Path) -> None:
    store = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/yard.db"
    async with serve([call("charge", amount=1), say("one"), call("charge", amount=2), say("two")], store) as served:
        first = await served.complete()
        joined = await served.complete(extra_headers=RETRY)
        assert (joined.id, joined.choices[0].message.content) == (first.id, "one")
        second = await served.complete()
        assert (second.id != first.id, second.choices[0].message.content) == (True, "two")
        last = await served.complete(extra_headers=RETRY)
        assert last.id == second.id
    assert effects == ["charged 1", "charged 2"]


async def test_a_request_that_is_no_retry_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    async def note(_: MemoryStore, key: str) -> None:
        searched.append(key)

    monkeypatch.setattr(MemoryStore, "find_request", note)
    async with serve([say("one")]) as served:
        await served.complete()
    [beginning] = searched
    assert len(beginning) == 40, "what the keys of all its sendings begin with"


async def test_a_retry_with_another_body_or_of_another_caller_is_a_new_request() -> None:
    async with serve([say("one"), say("two")]) as served:
        first = await served.complete()
        other = await served.complete([{"role": "user", "content": "Something else"}], extra_headers=RETRY)
    assert (first.choices[0].message.content, other.choices[0].message.content) == ("one", "two")


async def test_an_idempotency_key_joins_as_well_and_refuses_another_body() -> None:
    async with serve([say("one")]) as served:
        first = await served.complete(extra_headers={"Idempotency-Key": "k"})
        again = await served.complete(extra_headers={"Idempotency-Key": "k"})
        assert again.id == first.id
        with pytest.raises(Exception, match="another body") as refused:
            await served.complete([{"role": "user", "content": "x"}], extra_headers={"Idempotency-Key": "k"})
    assert getattr(refused.value, "status_code", 0) == 400


async def test_results_that_are_delivered_again_join_the_run() -> None:
    async with serve([call("take_photo", of="me"), call("charge", amount=1), say("done")]) as served:
        first = await served.complete(tools=[PHOTO])
        messages = answer_calls(HELLO, first, "a photo")
        answers = await asyncio.gather(*(served.complete(messages, tools=[PHOTO]) for _ in range(5)))
    assert len({answer.id for answer in answers}) == 1
    assert effects == ["charged 1"]


async def test_a_retry_while_the_first_request_still_runs_joins_it() -> None:
    release, entered = asyncio.Event(), asyncio.Event()

    @tool
    async def wait_for_release() -> str:
        """Wait."""
        effects.append("entered")
        entered.set()
        await release.wait()
        return "released"

    async with serve_script([call("wait_for_release"), say("done")], [wait_for_release]) as served:
        first = asyncio.create_task(served.complete())
        await entered.wait()
        first.cancel()
        second = asyncio.create_task(served.complete(extra_headers=RETRY))
        await asyncio.sleep(0)
        release.set()
        assert (await second).choices[0].message.content == "done"
    assert effects == ["entered"]


async def test_a_result_for_a_call_of_an_ended_run_is_plain_history() -> None:
    async with serve([call("take_photo", of="me"), say("one"), say("two")]) as served:
        first = await served.complete(tools=[PHOTO])
        messages = answer_calls(HELLO, first, "a photo")
        await served.complete(messages, tools=[PHOTO])
        changed = answer_calls(HELLO, first, "another photo")
        answer = await served.complete(changed, tools=[PHOTO])
    assert answer.choices[0].message.content == "two"
    assert len(list_calls(first)) == 1


async def test_identical_requests_at_the_same_time_are_requests_of_their_own() -> None:
    async with serve([say("a"), say("a"), say("a")]) as served:
        answers = await asyncio.gather(*(served.complete() for _ in range(3)))
    assert len({answer.id for answer in answers}) == 3


async def test_the_answer_names_the_request_and_the_allowance() -> None:
    async with build_yard([say("one")], requests_per_minute=1) as yard, connect_client(yard) as client:
        body = {"messages": HELLO}
        status, _, headers = await client.ask("POST", "/v1/chat/completions", body, x_correlation_id="trace-7")
        assert (status, headers["x-request-id"], headers["x-ratelimit-remaining-requests"]) == (200, "trace-7", "0")
        status, refused, headers = await client.ask("POST", "/v1/chat/completions", body)
    error: Json = refused["error"]
    assert (status, error["type"], error["code"]) == (429, "rate_limit_error", "rate_limit_exceeded")
    seconds = headers["retry-after"]
    assert headers["x-ratelimit-reset-requests"] == f"{seconds}s" and f"again in {seconds} s" in error["message"]


async def test_results_for_a_run_that_waits_are_no_new_request() -> None:
    script = [call("take_photo", of="me"), call("take_photo", of="you"), say("one")]
    async with serve_script(script, [charge], requests_per_minute=1) as served:
        first = await served.complete(tools=[PHOTO])
        messages = answer_calls(HELLO, first, "a photo")
        second = await served.complete(messages, tools=[PHOTO])
        answer = await served.complete(answer_calls(messages, second, "another"), tools=[PHOTO])
        assert answer.choices[0].message.content == "one"
        with pytest.raises(RateLimitError):
            await served.complete()


async def test_another_question_after_the_same_call_is_a_request_of_its_own() -> None:
    async with serve([call("take_photo", of="me"), say("one"), say("two"), say("three")]) as served:
        first = await served.complete(tools=[PHOTO])
        messages = answer_calls(HELLO, first, "a photo")
        answers = [
            await served.complete([*messages, {"role": "user", "content": text}], tools=[PHOTO])
            for text in ("q1", "q2", "q2")
        ]
        again = await served.complete(
            [*messages, {"role": "user", "content": "q1"}], tools=[PHOTO], extra_headers=RETRY
        )
    assert [answer.choices[0].message.content for answer in answers] == ["one", "two", "three"]
    assert again.id == answers[0].id


BUSY = fail("busy", "rate_limited")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("headers", [RETRY, {"Idempotency-Key": "k"}], ids=["retry", "key"])
async def test_a_retry_of_a_run_that_failed_before_any_call_starts_a_new_one(
    kind: str, headers: Json, tmp_path: Path
) -> None:
    store = "memory:" if kind == "memory" else f"sqlite:///{tmp_path}/yard.db"
    first = headers if "Idempotency-Key" in headers else None
    async with serve([BUSY, together(say("We"), BUSY), call("charge", amount=1), say("done")], store) as served:
        for sent in (first, headers):
            with pytest.raises(RateLimitError):
                await served.complete(extra_headers=sent)
        answer = await served.complete(extra_headers=headers)
        again = await served.complete(extra_headers=headers)
        assert (answer.choices[0].message.content, again.id) == ("done", answer.id)
        assert [len(request.history) for request in served.model.requests] == [1, 1, 1, 3], "the message comes once"
    assert effects == ["charged 1"]


async def test_a_retry_of_a_run_that_failed_after_a_call_or_for_good_gets_the_failure_again() -> None:
    async with serve([call("charge", amount=1), BUSY, fail("no credit", "quota_exceeded")]) as served:
        for text in ("one", "two"):
            message: list[Json] = [{"role": "user", "content": text}]
            for headers in (None, RETRY, RETRY):
                with pytest.raises(RateLimitError):
                    await served.complete(message, extra_headers=headers)
    assert effects == ["charged 1"]


async def test_a_retry_of_a_failed_delivery_goes_on_with_the_results() -> None:
    script = [together(call("charge", amount=1), call("take_photo", of="me")), BUSY, say("done")]
    async with serve(script) as served:
        waiting = await served.complete(tools=[PHOTO])
        messages = answer_calls(HELLO, waiting, "a photo")
        with pytest.raises(RateLimitError):
            await served.complete(messages, tools=[PHOTO])
        answer = await served.complete(messages, tools=[PHOTO], extra_headers=RETRY)
        assert answer.choices[0].message.content == "done"
        failed, again = (list_exchange(request.history) for request in served.model.requests[1:])
        assert failed == again == ["charge[1]", "take_photo['me']", "charge=charged", "take_photo=a photo"]
    assert effects == ["charged 1"]


async def test_a_new_run_in_place_of_a_failed_one_counts_as_a_request() -> None:
    async with serve_script([BUSY], requests_per_minute=1) as served:
        for headers in (None, RETRY):
            with pytest.raises(RateLimitError) as error:
                await served.complete(extra_headers=headers)
        assert "requests in a minute" in str(error.value)
