"""A provider's failure has one status, one code and one set of headers, on every API, streamed or not."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest
from msgspec import Struct
from openai import APIError, AsyncOpenAI, BadRequestError, InternalServerError, RateLimitError

from surfaces.api_client import Json
from surfaces.failing_provider import CUT_BEFORE, CUT_WITHIN, FAILURES, FailingProvider, read_data
from surfaces.openai.clients import Served, serve_model
from surfaces.openai.sockets import open_talk

NOT_SENT = "-"


class Answer(Struct, frozen=True):
    """What a client gets."""

    status: int
    code: str
    retry_after: str = NOT_SENT
    should_retry: str = NOT_SENT


ANSWERS: Mapping[str, Answer] = {
    "429 for a second": Answer(429, "rate_limit_exceeded", "1"),
    "429 for two minutes": Answer(429, "rate_limit_exceeded", "120"),
    "no credit": Answer(429, "insufficient_quota", should_retry="false"),
    "500": Answer(503, "server_error", "2"),
    "503": Answer(503, "server_error", "3"),
    "529": Answer(503, "overloaded_error", "2"),
    "wrong key": Answer(502, "model_error"),
    "no such model": Answer(502, "model_error"),
    "too long": Answer(400, "context_length_exceeded"),
    "filtered": Answer(400, "content_filter"),
    CUT_BEFORE: Answer(503, "server_error", "2"),
    CUT_WITHIN: Answer(503, "server_error", "2"),
}
CODES = {failure: answer.code for failure, answer in ANSWERS.items()}
Ask = Callable[[Served, aiohttp.ClientSession, str, bool], Awaitable[aiohttp.ClientResponse]]
ATTEMPTS = 4


@asynccontextmanager
async def serve_failures() -> AsyncGenerator[tuple[Served, FailingProvider, aiohttp.ClientSession]]:
    provider = FailingProvider()
    async with provider.open_model() as model, serve_model(model) as served, aiohttp.ClientSession() as session:
        yield served, provider, session


async def ask_chat(served: Served, session: aiohttp.ClientSession, text: str, stream: bool) -> aiohttp.ClientResponse:
    body = {"messages": [{"role": "user", "content": text}], "stream": stream}
    return await session.post(f"{served.url}/v1/chat/completions", json=body)


async def ask_responses(
    served: Served, session: aiohttp.ClientSession, text: str, stream: bool
) -> aiohttp.ClientResponse:
    return await session.post(f"{served.url}/v1/responses", json={"input": text, "stream": stream})


async def ask_conversation(
    served: Served, session: aiohttp.ClientSession, text: str, stream: bool
) -> aiohttp.ClientResponse:
    async with session.post(f"{served.url}/conversations", json={"title": "Test"}) as created:
        path = f"/conversations/{(await created.json())['conversation']['id']}/chat"
    accept = {"accept": "text/event-stream" if stream else "application/json"}
    return await session.post(served.url + path, json={"content": text}, headers=accept)


async def ask_respond(
    served: Served, session: aiohttp.ClientSession, text: str, stream: bool
) -> aiohttp.ClientResponse:
    return await session.post(f"{served.url}/ai/respond", json={"prompt": text})


async def ask_app(served: Served, session: aiohttp.ClientSession, text: str, stream: bool) -> aiohttp.ClientResponse:
    accept = {"accept": "text/event-stream" if stream else "application/json"}
    body = {"messages": [{"role": "user", "content": text}]}
    return await session.post(f"{served.url}/chat/v1/conversation", json=body, headers=accept)


async def ask_ai_sdk(served: Served, session: aiohttp.ClientSession, text: str, stream: bool) -> aiohttp.ClientResponse:
    message = {"id": f"m {text}", "role": "user", "parts": [{"type": "text", "text": text}]}
    return await session.post(f"{served.url}/ai-sdk/chat", json={"id": text, "messages": [message]})


async def ask_ag_ui(served: Served, session: aiohttp.ClientSession, text: str, stream: bool) -> aiohttp.ClientResponse:
    message = {"id": f"m {text}", "role": "user", "content": text}
    body = {"threadId": text, "runId": "r", "messages": [message], "tools": [], "context": []}
    return await session.post(f"{served.url}/ag-ui", json=body)


async def read_answer(response: aiohttp.ClientResponse) -> Answer:
    headers = response.headers
    if response.status == 200:
        return Answer(200, find_code(read_data(await response.text())))
    body: Json = await response.json()
    code: str = body["error"]["code"] if isinstance(body["error"], dict) else body["details"]["code"]
    return Answer(response.status, code, headers.get("retry-after", NOT_SENT), headers.get("x-should-retry", NOT_SENT))


def find_code(events: list[Json]) -> str:
    """Return the code of the only error in a stream."""
    codes: set[str] = {
        event.get("code") or event["error"]["code"]
        for event in events
        if event.get("type") in ("error", "RUN_ERROR") or ("choices" not in event and "type" not in event)
    }
    (code,) = codes
    return code


@pytest.mark.parametrize(
    ("ask", "stream"),
    [
        (ask_chat, False),
        (ask_chat, True),
        (ask_responses, False),
        (ask_responses, True),
        (ask_conversation, False),
        (ask_conversation, True),
        (ask_respond, True),
    ],
)
async def test_every_failure_has_its_status_code_and_headers(ask: Ask, stream: bool) -> None:
    answers: dict[str, Answer] = {}
    async with serve_failures() as (served, provider, session):
        for failure in FAILURES:
            async with await ask(served, session, failure, stream) as response:
                answers[failure] = await read_answer(response)
    # The headers of a stream are sent once the model has begun to answer.
    expected = {**ANSWERS, CUT_WITHIN: Answer(200, "server_error")} if stream else ANSWERS
    assert answers == expected
    attempts = {failure: provider.asked.count(failure) for failure in FAILURES}
    retried = ("429 for a second", "500", "503", "529", CUT_BEFORE)
    assert attempts == {failure: ATTEMPTS if failure in retried else 1 for failure in FAILURES}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_application_reads_the_code_in_the_answer(stream: bool) -> None:
    answers: dict[str, tuple[int, str, str, int | None]] = {}
    async with serve_failures() as (served, _, session):
        for failure in FAILURES:
            async with await ask_app(served, session, failure, stream) as response:
                events = read_data(await response.text()) if stream else [await response.json()]
            final: Json = next(event for event in events if event["type"] == "message")
            details = final["error"]["details"]
            answers[failure] = response.status, final["stopReason"], details["code"], details.get("retry_after_s")
    seconds = {
        failure: None if answer.retry_after == NOT_SENT else int(answer.retry_after)
        for failure, answer in ANSWERS.items()
    }
    assert answers == {failure: (200, "failed", CODES[failure], seconds[failure]) for failure in FAILURES}


async def test_ag_ui_has_an_error_event_with_the_code() -> None:
    async with serve_failures() as (served, _, session):
        answers = {failure: await read_answer(await ask_ag_ui(served, session, failure, True)) for failure in FAILURES}
    assert answers == {failure: Answer(200, code) for failure, code in CODES.items()}


async def test_the_ai_sdk_has_an_error_part_with_the_text() -> None:
    texts: dict[str, str] = {}
    async with serve_failures() as (served, _, session):
        for failure in FAILURES:
            async with await ask_ai_sdk(served, session, failure, True) as response:
                parts: list[Json] = read_data(await response.text())
                assert response.status == 200
            texts[failure] = next(part["errorText"] for part in parts if part["type"] == "error")
    assert all(texts.values()) and "429" in texts["no credit"] and "broke off" in texts[CUT_WITHIN]


async def test_a_web_socket_has_an_error_event_with_status_and_headers() -> None:
    answers: dict[str, Answer] = {}
    async with serve_failures() as (served, _, _), open_talk(served.url) as talk:
        for failure in FAILURES[:-1]:
            event: Json = (await talk.create(failure))[-1]
            headers = event["headers"]
            after, should_retry = (headers.get(name, NOT_SENT) for name in ("retry-after", "x-should-retry"))
            answers[failure] = Answer(event["status"], event["code"], after, should_retry)
    assert answers == {failure: ANSWERS[failure] for failure in FAILURES[:-1]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_openai_s_own_client_raises_the_class_of_the_failure(stream: bool) -> None:
    raised: dict[str, type[Exception]] = {}
    async with serve_failures() as (served, _, _):
        for failure in FAILURES[:-1]:
            with pytest.raises(APIError) as error:
                await served.client.responses.create(model="default", input=failure, stream=stream)
            raised[failure] = type(error.value)
            if isinstance(error.value, RateLimitError):
                sent = error.value.response.headers.get("retry-after", NOT_SENT)
                assert (error.value.code, sent) == (CODES[failure], ANSWERS[failure].retry_after)
    classes = {400: BadRequestError, 429: RateLimitError, 502: InternalServerError, 503: InternalServerError}
    assert raised == {failure: classes[ANSWERS[failure].status] for failure in FAILURES[:-1]}


async def test_who_reads_the_run_elsewhere_is_answered_at_once() -> None:
    async with serve_failures() as (served, _, session):
        created = await session.post(f"{served.url}/conversations", json={"title": "Test"})
        path = f"/conversations/{(await created.json())['conversation']['id']}/chat"
        headers = {"accept": "text/event-stream", "prefer": "respond-async"}
        async with session.post(served.url + path, json={"content": "500"}, headers=headers) as response:
            assert response.status == 200
            assert find_code(read_data(await response.text())) == "server_error"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_client_s_retries_reach_a_provider_that_works_again(stream: bool) -> None:
    provider = FailingProvider(failures_left=ATTEMPTS)
    async with (
        provider.open_model() as model,
        serve_model(model) as served,
        AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=3) as client,
    ):
        answer: Json = await client.responses.create(model="default", input="500", stream=stream)
        text = [event async for event in answer][-1].response.output_text if stream else answer.output_text
    assert (text, len(provider.asked)) == ("Well", ATTEMPTS + 1)
