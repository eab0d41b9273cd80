"""What the fuzz tests share: a server in a thread of its own, what Schemathesis is told, and what answers are held to.

It does not know which requests are made.
"""

import asyncio
import http.client
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from random import Random
from typing import Any, cast
from urllib.parse import urlsplit
from zlib import crc32

import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks as common
from schemathesis.specs.openapi import checks as by_the_page

from ports import listen
from toolyard import Tool, tool
from toolyard.app import App, Wiring, open_store
from toolyard.core.items import Call, UserMessage
from toolyard.core.ports import Context, ModelRequest, Pending
from toolyard.core.store import Key
from toolyard.hosting import AsgiApp
from toolyard.models.resolver import ModelResolver
from toolyard.testing import Scripted, Turn, call, say, together
from toolyard.venues.client import ClientVenue

Json = Any
Case = schemathesis.Case[Any]
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "4"))
"""How many requests of each kind; `make fuzz` makes more."""
TIMEOUT_S = 60.0
SILENCE_S = 0.05
"""A stream that says nothing for so long is left: one that follows a conversation has no end."""


def make_settings(examples: int) -> settings:
    """The same examples every time, and no time spent on making one that fails smaller."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(approval="ask")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class WaitingVenue(ClientVenue):
    """A venue whose calls wait: for the application, or for an answer."""

    def tools(self) -> Sequence[Tool]:
        return [Tool(name="search", venue="mcp"), Tool(name="book", venue="mcp")]

    async def run(self, call: Call, tool: Tool, context: Context) -> Pending:
        if tool.name == "search":
            return Pending(kind="client")
        return Pending(kind="question", question={"message": "Which day?"}, resume_token="t")


TURNS = {
    "add": call("add", a=1, b=2),
    "pay": call("pay", amount=5),
    "search": call("search"),
    "book": call("book"),
    "everything": together(call("pay", amount=1), call("search"), call("book"), call("add", a=1, b=1)),
    "nonsense": together(call("no_such_tool"), call("add", a="one")),
}
"""The model's turn for each of these messages; it answers any other message with text."""


def reply(request: ModelRequest) -> Turn:
    last = request.history[-1]
    return TURNS.get(last.text, say("You said: ", last.text)) if isinstance(last, UserMessage) else say("done")


@asynccontextmanager
async def fuzzed_app(store: str, keys: Sequence[Key]) -> AsyncGenerator[AsgiApp, None]:
    """The server. Its model complains at the end if it was ever handed a history that a strict one would refuse."""
    model = Scripted(reply)
    wiring = Wiring(model=model, tools=[add, pay], keys=keys, allowed_models=frozenset({"given"}))
    async with asyncio.TaskGroup() as tasks:
        app = App(wiring, ModelResolver(model), await open_store(store), tasks)
        app.registry.add(WaitingVenue())
        await app.service.start()
        yield await app.asgi()
        await app.close()


@contextmanager
def serve_in_thread(open_app: Callable[[], AbstractAsyncContextManager[AsgiApp]]) -> Generator[str]:
    """The address of an application behind a real socket, in a thread of its own."""
    listening = listen()
    ready: Future[uvicorn.Server] = Future()

    async def serve() -> None:
        async with open_app() as app:
            config = uvicorn.Config(
                app, http="httptools", ws="none", lifespan="off", log_level="critical", timeout_graceful_shutdown=1
            )
            server = uvicorn.Server(config)
            ready.set_result(server)
            await server.serve([listening])

    with listening, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(asyncio.run, serve())
        wait(cast(list[Future[Any]], [serving, ready]), TIMEOUT_S, FIRST_COMPLETED)
        if serving.done():
            serving.result()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ready.result(0).should_exit = True
            serving.result(TIMEOUT_S)


def send_case(case: Case, url: str, headers: Mapping[str, str]) -> schemathesis.Response:
    """The answer to a request; of a stream, what it says before it falls silent."""
    prepared = requests.Request(**case.as_transport_kwargs(base_url=url, headers=dict(headers))).prepare()
    host, path = urlsplit(url).netloc, (prepared.url or "").removeprefix(url)
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT_S)
    try:
        connection.request(prepared.method or "", path, cast(bytes, prepared.body), dict(prepared.headers))
        wire = connection.sock
        answer = connection.getresponse()
        headers_by_name: dict[str, list[str]] = {}
        for name, value in answer.getheaders():
            headers_by_name.setdefault(name.lower(), []).append(value)
        streamed = headers_by_name.get("content-type", [""])[0].startswith("text/event-stream")
        body = _read_until_silence(answer, wire) if streamed else answer.read()
    finally:
        connection.close()
    return schemathesis.Response(answer.status, headers_by_name, body, prepared, 0.0, True)


def _read_until_silence(answer: http.client.HTTPResponse, wire: socket.socket) -> bytes:
    wire.settimeout(SILENCE_S)
    pieces: list[bytes] = []
    try:
        while piece := answer.read1():
            pieces.append(piece)
    except TimeoutError:
        pass
    return b"".join(pieces)


def check_answer_shape(context: schemathesis.CheckContext, response: schemathesis.Response, case: Case) -> None:
    """One correlation id, and a body that is what its content type says."""
    correlation_ids = response.headers.get("x-correlation-id", [])
    assert len(correlation_ids) == 1 and correlation_ids[0], f"there are {len(correlation_ids)} correlation ids"
    body: Json
    kind = response.headers.get("content-type", [""])[0].partition(";")[0]
    match kind:
        case "" if response.status_code == 204 and (case.method == "OPTIONS" or case.path.endswith("/stream")):
            body = None
        case "application/json":
            body = json.loads(response.content)
        case "text/event-stream":
            assert response.content.decode().endswith("\n\n") or not response.content
            lines = [line for line in response.content.decode().split("\n") if line.startswith("data: ")]
            body = [json.loads(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]"]
        case "text/plain":
            assert case.path == "/metrics" and response.status_code == 200
            body = response.content.decode()
        case "text/csv":
            assert case.path == "/usage" and response.status_code == 200
            body = response.content.decode()
        case "text/markdown":
            assert case.path.endswith("/export") and response.status_code == 200
            body = response.content.decode()
        case _:
            raise AssertionError(f"no answer is {kind!r}")
    if response.status_code >= 400 and case.path.startswith("/v1/messages"):
        assert set(body) == {"type", "error", "request_id"}, body
        assert set(body["error"]) - {"details"} == {"type", "message"}, body
        assert response.headers["request-id"] == correlation_ids and "Traceback" not in str(body), body
    elif response.status_code >= 400 and case.path.startswith("/v1/"):
        assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}, body
        assert response.headers["x-request-id"] == correlation_ids and "Traceback" not in str(body), body
    elif response.status_code >= 400:
        assert set(body) == {"ok", "success", "error", "error_type", "details", "correlation_id"}, body
        assert body["correlation_id"] == correlation_ids[0] and "Traceback" not in str(body), body


CHECKS: list[Any] = [
    cast(Any, common).not_a_server_error,
    cast(Any, by_the_page).status_code_conformance,
    cast(Any, by_the_page).content_type_conformance,
    cast(Any, by_the_page).response_headers_conformance,
    cast(Any, by_the_page).response_schema_conformance,
    check_answer_shape,
]


def fetch_openapi(url: str) -> Json:
    return requests.get(f"{url}/openapi.json", timeout=TIMEOUT_S).json()


MEANINGFUL_TEXTS: dict[str, dict[str, list[str]]] = {
    "chat": {"content": [*TURNS], "tool_choice": ["auto", "none", "add"], "model": ["", "given"], "language": [""]},
    "respond": {"prompt": [*TURNS], "tool_choice": ["auto"], "model": ["", "given"], "language": [""]},
    "rewind": {"to": [""]},
    "fork": {"after": [""]},
    "conversations": {"model": ["", "given"]},
    "cancel": {"call_id": [""]},
    "keys": {"name": ["one", "two", "three"], "user": ["eve"]},
    "tools": {"server_id": ["function", "mcp"], "tool_name": ["add", "pay", "search", "book"]},
}
"""Texts that mean something to this server: by the end of the path, and by the field that takes them."""


def forbid_unknown_fields(document: Json) -> Json:
    """The page without unknown fields, which many endpoints refuse: a sequence is to get on."""
    for methods in document["paths"].values():
        for operation in methods.values():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            for variant in (schema, *schema.get("oneOf", ())):
                if "$ref" in variant:
                    document["components"]["schemas"][variant["$ref"].rpartition("/")[2]]["additionalProperties"] = (
                        False
                    )
    return document


class KnownIds:
    """The ids that answers have told, by the conversation they belong to and the parameter that takes them."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], list[str]] = {}

    def record(self, case: Case, response: schemathesis.Response) -> None:
        """Take in an answer."""
        if response.status_code >= 300 or (
            case.path in ("/conversations", "/conversations/search") and case.method == "GET"
        ):
            return
        if case.path.endswith(("/chat", "/respond")):
            self._add("", "correlation_id", response.headers["x-correlation-id"][0])
        text = response.content.decode()
        lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: {")]
        if response.headers.get("content-type", [""])[0] == "application/json":
            lines = [text]
        for line in lines:
            self._collect(json.loads(line), "", case.path_parameters.get("conversation_id", ""))

    def _collect(self, node: Json, under: str, conversation: str) -> None:
        if isinstance(node, list):
            for child in cast(list[Json], node):
                self._collect(child, under.removesuffix("s"), conversation)
        if not isinstance(node, dict):
            return
        for name, value in cast(dict[str, Json], node).items():
            parameter = f"{under.rpartition('_')[2]}_id" if name == "id" else name
            if isinstance(value, str) and value.startswith("resp_"):
                self._add("", "response_id", value)
            if isinstance(value, str) and (parameter in CONVERSATION_PARAMETERS or parameter in GLOBAL_PARAMETERS):
                self._add(conversation if parameter in CONVERSATION_PARAMETERS else "", parameter, value)
            self._collect(value, name, conversation)

    def _add(self, conversation: str, parameter: str, value: str) -> None:
        ids = self._ids.setdefault((conversation, parameter), [])
        if value and value not in ids:
            ids.append(value)

    def pick(self, parameter: str, random: Random, conversation: str = "") -> str:
        """One of the latest, or now and then one that nobody has heard of."""
        recent_ids = self._ids.get((conversation if parameter in CONVERSATION_PARAMETERS else "", parameter), [])[-3:]
        return random.choice(recent_ids) if recent_ids and random.random() < 0.9 else "nobody"

    def fill_case(self, case: Case, random: Random) -> None:
        """Put what means something into a request, and sometimes leave what is there."""
        conversation_id = self.pick("conversation_id", random)
        for parameter in case.path_parameters:
            case.path_parameters[parameter] = (
                conversation_id if parameter == "conversation_id" else self.pick(parameter, random, conversation_id)
            )
        if not isinstance(case.body, dict):
            return
        body: dict[str, Json] = dict(case.body)
        words = MEANINGFUL_TEXTS.get(case.path.rpartition("/")[2], {})
        body |= {name: random.choice(texts) for name, texts in words.items() if name in body and random.random() < 0.8}
        if case.path == "/ai/respond" and "conversation_id" in body:
            body["conversation_id"] = conversation_id
        if case.path.endswith("/result"):
            body = dict([*body.items()][:1])  # a result or an error, not both
        case.body = body


CONVERSATION_PARAMETERS = {"message_id", "context_id", "call_id", "run_id"}
GLOBAL_PARAMETERS = {"conversation_id", "name", "response_id"}
LISTS = {"GET /conversations", "GET /conversations/search"}
"""They tell of what other sequences have made."""


def choose_accept_header(case: Case) -> dict[str, str]:
    """About every other chat is asked for as a stream."""
    odd = crc32(repr(case.body).encode()) % 2
    return {"accept": "text/event-stream"} if odd and case.path.endswith("/chat") else {}
