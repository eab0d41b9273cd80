"""Temporary errors are retried before the first byte; other errors carry the provider's message."""

import asyncio
import socket
from email.utils import formatdate

import pytest

from toolyard.core.conversation.events import TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Problem
from toolyard.models.chat.model import OpenAIChat, Retry
from wire.local import (
    NOW,
    STREAM_HEAD,
    SleepRecorder,
    encode_chunk,
    events_of,
    failure_of,
    open_model,
    raw_server,
    request,
    user,
)
from wire.reply_bytes import chunk
from wire.strict import Reply, refuses
from wire.strict_chat import StrictChat, says

HI = [user("hi")]


async def run_turn(strict: StrictChat, sleeps: SleepRecorder, retry: Retry | None = None) -> Problem | TurnEnded:
    """One turn against the strict server: how it ended."""
    async with (
        strict.serving() as base_url,
        open_model(OpenAIChat(base_url=base_url, retry=retry or Retry(), sleep=sleeps, random=lambda: 0.0)) as model,
    ):
        last = (await events_of(model, request(HI)))[-1]
    return last.problem if isinstance(last, TurnFailed) else require_turn_ended(last)


def require_turn_ended(event: object) -> TurnEnded:
    assert isinstance(event, TurnEnded), event
    return event


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_tried_again_with_twice_the_wait_each_time(status: int) -> None:
    sleeps = SleepRecorder()
    strict = StrictChat(*[refuses(status, "later")] * 3, says("ok"))
    assert isinstance((await run_turn(strict, sleeps)), TurnEnded)
    assert sleeps.durations_s == [0.5, 1.0, 2.0]
    assert len(strict.bodies) == 4
    assert len(set(strict.bodies)) == 1


TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "Range of input length should be [1, 30720]",
    "the request exceeds the available context size, try increasing it",
]
"""In the words of OpenAI and vLLM, Anthropic (twice), Gemini, DashScope and llama.cpp."""


@pytest.mark.parametrize("message", TOO_LONG)
async def test_a_request_that_is_too_long_is_known_by_the_provider_s_words(message: str) -> None:
    problem = await run_turn(StrictChat(refuses(400, message)), SleepRecorder())
    assert isinstance(problem, Problem) and problem.error_type == "too_large"


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku-20240307",
        "max_tokens is too large: 99999. This model supports at most 16384 completion tokens, whereas you…",
    ],
)
async def test_where_more_is_asked_for_than_a_model_gives_it_is_told_what_to_set(message: str) -> None:
    problem = await run_turn(StrictChat(refuses(400, message)), SleepRecorder())
    assert isinstance(problem, Problem) and problem.error_type == "model_error"
    assert message in problem.error
    assert problem.error.endswith("; set a smaller max_tokens for this model in [model_options]")


def test_the_wait_is_bounded_and_shortened_by_chance() -> None:
    retry = Retry(attempts=9, first_wait_s=0.5, max_wait_s=8)
    assert [retry.compute_wait_s(attempt, 0.0) for attempt in (1, 5, 8)] == [0.5, 8, 8]
    assert retry.compute_wait_s(1, 1.0) == 0.25


@pytest.mark.parametrize(
    ("status", "error_type"), [(400, "model_error"), (401, "model_error"), (404, "model_error"), (413, "model_error")]
)
async def test_what_will_not_pass_is_told_at_once_in_the_provider_s_words(status: int, error_type: str) -> None:
    sleeps = SleepRecorder()
    problem = await run_turn(StrictChat(refuses(status, "so it is", x_request_id="req_9")), sleeps)
    assert isinstance(problem, Problem)
    assert problem.error_type == error_type
    assert "so it is" in problem.error
    assert problem.details == {"provider": "openai", "status": status, "request_id": "req_9", "type": "scripted"}
    assert sleeps.durations_s == []


@pytest.mark.parametrize(("status", "error_type"), [(429, "rate_limited"), (503, "unavailable"), (504, "timeout")])
async def test_the_last_attempt_s_failure_is_told_with_their_number(status: int, error_type: str) -> None:
    sleeps = SleepRecorder()
    problem = await run_turn(StrictChat(*[refuses(status, "busy")] * 9), sleeps, Retry(attempts=3))
    assert isinstance(problem, Problem)
    assert (problem.error_type, problem.details["attempts"], len(sleeps.durations_s)) == (error_type, 3, 2)


async def test_a_quota_that_is_used_up_is_not_waited_for() -> None:
    body = b'{"error": {"message": "pay first", "code": "insufficient_quota"}}'
    sleeps = SleepRecorder()
    problem = await run_turn(StrictChat(Reply(status=429, packets=[body])), sleeps)
    assert isinstance(problem, Problem)
    assert (problem.error_type, sleeps.durations_s) == ("quota_exceeded", [])


@pytest.mark.parametrize(
    ("status", "message", "error_type"),
    [
        (402, "Insufficient Balance", "quota_exceeded"),
        (400, "Your credit balance is too low to access the Anthropic API.", "quota_exceeded"),
        (400, "The response was filtered due to Azure's policy: ResponsibleAIPolicyViolation", "content_filter"),
        (400, "data_inspection_failed: Input data may contain inappropriate content.", "content_filter"),
        (400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "content_filter"),
    ],
)
async def test_no_credit_and_a_content_filter_are_known_by_the_provider_s_words(
    status: int, message: str, error_type: str
) -> None:
    sleeps = SleepRecorder()
    problem = await run_turn(StrictChat(refuses(status, message)), sleeps)
    assert isinstance(problem, Problem)
    assert (problem.error_type, sleeps.durations_s) == (error_type, [])


@pytest.mark.parametrize(
    ("retry_after", "waited"),
    [
        ("4", 4.0),
        ("0.25", 0.25),
        (formatdate(NOW + 3, usegmt=True), 3.0),
        (formatdate(0), 0.0),
        ("soon", 0.5),
        ("inf", 0.5),
    ],
)
async def test_retry_after_is_honoured(retry_after: str, waited: float) -> None:
    sleeps = SleepRecorder()
    await run_turn(StrictChat(refuses(429, "slow", Retry_After=retry_after), says("ok")), sleeps)
    assert sleeps.durations_s == [waited]


async def test_a_provider_that_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    sleeps = SleepRecorder()
    problem = await run_turn(StrictChat(refuses(429, "slow", Retry_After="3600"), says("ok")), sleeps)
    assert isinstance(problem, Problem)
    assert problem.error_type == "rate_limited"
    assert "asks to wait 3600 s, and at most 5 s" in problem.error
    assert (problem.details["retry_after_s"], sleeps.durations_s) == (3600.0, [])


async def test_retries_end_before_a_client_gives_up() -> None:
    sleeps = SleepRecorder()
    strict = StrictChat(*[refuses(429, "slow", Retry_After="4")] * 4)
    problem = await run_turn(strict, sleeps)
    assert isinstance(problem, Problem)
    assert (problem.details["attempts"], problem.details["retry_after_s"]) == (3, 4.0)
    assert sleeps.durations_s == [4.0, 4.0], "a third wait would exceed ten seconds"


async def test_milliseconds_of_openai_are_honoured() -> None:
    sleeps = SleepRecorder()
    await run_turn(StrictChat(refuses(429, "slow", retry_after_ms="1500", Retry_After="2"), says("ok")), sleeps)
    assert sleeps.durations_s == [1.5]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"error": "just a text"}', "just a text"),
        (b'{"message": "bare", "code": "x"}', "bare"),
        (b'{"detail": [{"loc": ["body"], "msg": "field required"}]}', "field required"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b'{"error": {"message": {"deep": "words"}}}', "words"),
        (b'{"error": true, "message": "flagged"}', "flagged"),
        (b"plain words", "plain words"),
        (b"<html><h1>Bad Gateway</h1></html>" + b"x" * 9_000, "<h1>Bad Gateway"),
        (b"\xff\xfe", "answered 418"),
        (b"", "answered 418"),
        (b"[" * 5_000, "[[["),
    ],
)
async def test_errors_in_every_shape_are_read(body: bytes, says: str) -> None:
    problem = await run_turn(StrictChat(Reply(status=418, packets=[body])), SleepRecorder())
    assert isinstance(problem, Problem)
    assert says in problem.error
    assert len(problem.error) < 450


async def test_a_server_that_is_not_there_is_tried_again_and_then_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sleeps = SleepRecorder()
        base_url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        async with open_model(OpenAIChat(base_url=base_url, sleep=sleeps)) as model:
            problem = (await failure_of(model, request(HI))).problem
    assert (problem.error_type, len(sleeps.durations_s)) == ("unavailable", 3)
    assert "cannot be reached" in problem.error


async def test_a_connection_that_breaks_before_the_first_byte_is_tried_again_and_after_it_never() -> None:
    answers = [b"", STREAM_HEAD, STREAM_HEAD + encode_chunk(chunk(content="a"))]
    sleeps = SleepRecorder()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))

    async with raw_server(talk) as base_url, open_model(OpenAIChat(base_url=base_url, sleep=sleeps)) as model:
        events = await events_of(model, request(HI))
    assert isinstance(events[0], TextAppended)
    assert len(sleeps.durations_s) == 2
    assert not answers
    last = events[-1]
    assert isinstance(last, TurnFailed)
    assert last.problem.error_type == "unavailable"
    assert "broke off in the middle" in last.problem.error
