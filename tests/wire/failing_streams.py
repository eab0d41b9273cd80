"""Replies that must end in a failure, with the type and the words that it must have."""

from wire.reply_bytes import DONE, STOP, FailingStream, chunk, event

FAILING = [
    FailingStream(name="broke off", body=chunk(content="a"), error_type="unavailable", says="broke off"),
    FailingStream(
        name="broke off inside an event",
        body=chunk(content="a") + b'data: {"choices": [{"de',
        error_type="unavailable",
        says="broke off",
    ),
    FailingStream(name="an empty body", body=b"", error_type="unavailable", says="empty"),
    FailingStream(
        name="an error in the stream",
        body=chunk(content="a") + event({"error": {"message": "out of memory", "type": "server_error"}}) + DONE,
        error_type="unavailable",
        says="out of memory",
    ),
    FailingStream(
        name="OpenRouter: an error beside a choice",
        body=event(
            {
                "error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "slow down"}},
                "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
            }
        ),
        error_type="rate_limited",
        says="Provider returned error (slow down)",
    ),
    FailingStream(
        name="vLLM: an error that is not wrapped",
        body=event({"object": "error", "message": "no such LoRA", "code": 404}) + DONE,
        error_type="model_error",
        says="no such LoRA",
    ),
    FailingStream(
        name="an error written bare between events",
        body=chunk(content="a") + b'{"error": "upstream died"}\n\n',
        error_type="model_error",
        says="upstream died",
    ),
    FailingStream(
        name="DeepSeek: interrupted",
        body=chunk(content="a") + chunk("insufficient_system_resource") + DONE,
        error_type="unavailable",
        says="insufficient_system_resource",
    ),
    FailingStream(
        name="garbage", body=b"data: what?\n\n" + STOP + DONE, error_type="model_error", says="not JSON: what?"
    ),
    FailingStream(
        name="a chunk of another shape",
        body=b'data: {"choices": "none"}\n\n',
        error_type="model_error",
        says="cannot be read",
    ),
    FailingStream(name="plain text", body=b"upstream timed out\n", error_type="unavailable", says="upstream timed out"),
    FailingStream(
        name="a page",
        body=b"<!doctype html><title>Log in</title>",
        error_type="model_error",
        says="<title>Log in",
        content_type="text/html",
    ),
    FailingStream(
        name="an error object with status 200",
        body=b'{"error": {"message": "bad key", "code": "invalid_api_key"}}',
        error_type="model_error",
        says="bad key",
        content_type="application/json",
    ),
    FailingStream(
        name="some other object",
        body=b'{"detail": "Not Found"}',
        error_type="model_error",
        says="not a chat completion: Not Found",
        content_type="application/json",
    ),
    FailingStream(
        name="a line that does not end",
        body=b"data: " + b"x" * (8 * 1024 * 1024 + 1),
        error_type="model_error",
        says="longer than 8,388,608 bytes",
    ),
]
