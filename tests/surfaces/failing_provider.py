"""A provider of chat completions that fails in the way that the last message names, and is as strict as OpenAI."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from toolyard.models.chat.model import OpenAIChat
from wire.local import SleepRecorder, open_model, serving
from wire.reply_bytes import DONE, STOP, chunk
from wire.strict_chat import StrictChatBody, faults_of


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer that is no success."""

    status: int
    message: str = "no"
    type: str = "error"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


REFUSALS: Mapping[str, Refusal] = {
    "429 for a second": Refusal(status=429, code="rate_limit_exceeded", headers={"Retry-After": "1"}),
    "429 for two minutes": Refusal(status=429, code="rate_limit_exceeded", headers={"Retry-After": "120"}),
    "no credit": Refusal(status=429, type="insufficient_quota", code="insufficient_quota"),
    "500": Refusal(status=500, type="server_error"),
    "503": Refusal(status=503, headers={"Retry-After": "3"}),
    "529": Refusal(status=529, type="overloaded_error"),
    "wrong key": Refusal(status=401, type="invalid_request_error", code="invalid_api_key"),
    "no such model": Refusal(status=404, type="invalid_request_error", code="model_not_found"),
    "too long": Refusal(status=400, type="invalid_request_error", code="context_length_exceeded"),
    "filtered": Refusal(status=400, type="invalid_request_error", code="content_filter"),
}
CUT_BEFORE, CUT_WITHIN = "cut before the first byte", "cut in the middle"
FAILURES = (*REFUSALS, CUT_BEFORE, CUT_WITHIN)
"""The twelve failures, by the message that asks for them."""


class FailingProvider:
    """Fails as asked. After `failures_left` requests, if it is set, it answers."""

    def __init__(self, failures_left: int | None = None) -> None:
        self.failures_left = failures_left
        self.asked: list[str] = []
        """The failure that each request asked for, in order."""

    @asynccontextmanager
    async def open_model(self) -> AsyncGenerator[OpenAIChat]:
        """Yield a model of this provider that retries without waiting."""
        async with (
            serving(self._answer) as base_url,
            open_model(OpenAIChat(base_url=base_url, sleep=SleepRecorder(), random=lambda: 0.0)) as model,
        ):
            yield model

    async def _answer(self, received: web.Request) -> web.StreamResponse:
        body = await received.read()
        assert not (faults := faults_of(body)), faults
        last = msgspec.json.decode(body, type=StrictChatBody).messages[-1]
        assert isinstance(last.content, str)
        failure = last.content
        self.asked.append(failure)
        is_recovered = self.failures_left is not None and len(self.asked) > self.failures_left
        if (refusal := REFUSALS.get(failure)) is not None and not is_recovered:
            error = {"message": refusal.message, "type": refusal.type, "param": None, "code": refusal.code}
            return web.json_response({"error": error}, status=refusal.status, headers=refusal.headers)
        assert received.transport is not None
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if failure == CUT_BEFORE and not is_recovered:
            received.transport.close()
            return response
        await response.prepare(received)
        await response.write(chunk(content="Well"))
        if is_recovered:
            await response.write(STOP + DONE)
        else:
            received.transport.close()
        return response


def read_data(text: str) -> list[dict[str, object]]:
    """Return the JSON objects of the events of a stream."""
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
