"""Wires before their strict providers: what a provider receives of a request's options."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from toolyard.core.conversation.events import TurnEnded
from toolyard.core.ports import Model
from toolyard.core.settings.models.options import Options
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.responses import OpenAIResponses
from wire import gemini_bytes, responses_bytes, strict_gemini, strict_messages
from wire.local import events_of, failure_of, open_model, request, user
from wire.strict import StrictServer
from wire.strict_chat import StrictChat, says
from wire.strict_gemini import strict_gemini as gemini_server
from wire.strict_responses import strict_responses

Body = dict[str, Any]


class Wire:
    """A wire with its strict provider."""

    def __init__(self, open_server: Callable[[], StrictServer], open_wire: Callable[[str], Model]) -> None:
        self._open_server = open_server
        self._open_wire = open_wire

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[StrictServer, Model], None]:
        server = self._open_server()
        async with server.serving() as base_url, open_model(self._open_wire(base_url)) as model:
            yield server, model

    async def send(self, options: Options, **more: Any) -> Body:
        """Return the body that the provider received and accepted."""
        async with self.open() as (server, model):
            events = await events_of(model, request([user("hi")], options=options, **more))
            assert isinstance(events[-1], TurnEnded), events[-1]
            return json.loads(server.bodies[-1])

    async def send_refused(self, options: Options, **more: Any) -> str:
        """Return why the wire refuses the options; the provider has received nothing."""
        async with self.open() as (server, model):
            failed = await failure_of(model, request([user("hi")], options=options, **more))
            assert server.bodies == []
            assert failed.problem.error_type == "unsupported_option"
            assert str(failed.problem.details["option"]) in failed.problem.error
            return failed.problem.error


CHAT = Wire(lambda: StrictChat(says("hi")), lambda url: OpenAIChat(base_url=url, model="m"))
DEEPSEEK = Wire(lambda: StrictChat(says("hi")), lambda url: OpenAIChat(base_url=url, model="m", provider="deepseek"))
RESPONSES = Wire(
    lambda: strict_responses(responses_bytes.says("hi")),
    lambda url: OpenAIResponses(base_url=url, model=responses_bytes.MODEL),
)
MESSAGES = Wire(
    lambda: strict_messages.StrictMessages(strict_messages.says("hi")), lambda url: Anthropic(base_url=url, model="m")
)
OLD_CLAUDE = Wire(
    lambda: strict_messages.StrictMessages(strict_messages.says("hi")),
    lambda url: Anthropic(base_url=url, model="claude-3-7-sonnet-latest"),
)
GEMINI = Wire(
    lambda: gemini_server(gemini_bytes.says("hi")), lambda url: Gemini(base_url=url, model=strict_gemini.MODEL)
)
OLD_GEMINI = Wire(
    lambda: gemini_server(gemini_bytes.says("hi"), model="gemini-2.5-flash"),
    lambda url: Gemini(base_url=url, model="gemini-2.5-flash"),
)
