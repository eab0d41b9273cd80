"""Schemathesis reads the server's own OpenAPI page and does its worst: no 5xx, no answer that the page does not tell.

`make fuzz` does the same with more examples.
"""

import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import given, strategies
from litestar import Litestar, Request, Response, delete, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath
from msgspec import Struct
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup

from surfaces.api_client import build_key
from surfaces.fuzzed import (
    CHECKS,
    EXAMPLES,
    Case,
    Json,
    KnownIds,
    choose_accept_header,
    fetch_openapi,
    forbid_unknown_fields,
    fuzzed_app,
    make_settings,
    send_case,
    serve_in_thread,
)
from toolyard.hosting import AsgiApp

Headers = Mapping[str, str]
KEYS = [build_key("ann"), build_key("op", "operator", "approver"), build_key("boss", "admin")]
NOBODY: Headers = {}
ANN: Headers = {"x-api-key": "ann"}
OPERATOR: Headers = {"authorization": "Bearer op"}
BOSS: Headers = {"x-api-key": "boss"}
CREATE, DELETE = "POST /conversations", "DELETE /conversations/{conversation_id}"
CHAT, RESTORE = "POST /conversations/{conversation_id}/chat", "POST /conversations/{conversation_id}/restore"
FIRST_KEY = "POST /keys"
"""Not asked of a local server, which would then ask everybody for a key."""
NOT_AT_RANDOM = ("POST /servers", "POST /servers/test", "POST /servers/import", "POST /providers/{provider_id}/test")
"""They run whatever command they are given, or send requests to whatever address."""
MAX_BOUNDARIES = 100
"""Of an operation with more, a third is tried."""
SEQUENCES, STEPS = 6 * EXAMPLES, 60
WEIGHTS = {"chat": 6, "messages": 2, "context": 2, "approve": 4, "deny": 4, "answer": 4, "result": 4, "respond": 2}


class Fuzzer:
    """Requests to one server, each answer checked. The first that fails raises."""

    def __init__(self, url: str, document: Json, *skip: str) -> None:
        self._url = url
        self._schema: Any = schemathesis.openapi.from_dict(document)
        operations: list[Any] = [result.ok() for result in self._schema.get_all_operations()]
        self._operations = {operation.label: operation for operation in operations if operation.label not in skip}
        self.status_counts: Counter[tuple[str, int]] = Counter()
        """How often each operation answered with each status."""

    def run_each(self, headers: Headers, *, has_boundaries: bool = True) -> None:
        """Every operation by itself: the boundaries of what its schema allows, and past them; then at random."""
        for operation in self._operations.values():
            if has_boundaries:
                self._run_boundaries(operation, headers)
            for mode in GenerationMode if _accepts_wrong_input(operation) else [GenerationMode.POSITIVE]:
                self._run_random(operation.as_strategy(generation_mode=mode), headers)

    def _run_boundaries(self, operation: Any, headers: Headers) -> None:
        config = self._schema.config.generation
        cases = list(
            self._schema.iter_coverage_cases(operation, generation_modes=list(GenerationMode), generation_config=config)
        )
        # The bodies of several operations share most of their fields. `make fuzz` tries each boundary of each of them.
        every = 1 if EXAMPLES >= 50 or len(cases) <= MAX_BOUNDARIES else 3
        for case in cases[zlib.crc32(operation.label.encode()) % every :: every]:
            self._ask(case, headers)

    def _run_random(self, cases: strategies.SearchStrategy[Case], headers: Headers) -> None:
        @make_settings(EXAMPLES)
        @given(cases)
        def ask(case: Case) -> None:
            self._ask(case, headers)

        ask()

    def run_sequences(self, *callers: Headers) -> None:
        """Requests in any order, with the ids that answers before them have told."""
        cases = {
            (label, mode): operation.as_strategy(
                generation_mode=mode,
                path_parameters={parameter.name: "nobody" for parameter in operation.path_parameters},
            )
            for label, operation in self._operations.items()
            for mode in GenerationMode
        }
        weights = [WEIGHTS.get(label.rpartition("/")[2], 1) for label in self._operations]

        @make_settings(SEQUENCES)
        @given(strategies.data())
        def sequence(data: strategies.DataObject) -> None:
            random = Random(data.draw(strategies.binary(min_size=16, max_size=16)))  # each choice as likely as the next
            first, known_ids, deleted = random.choice(callers), KnownIds(), set[str]()
            for label in (CREATE, CHAT, *random.choices([*self._operations], weights, k=STEPS)):
                wrong = _accepts_wrong_input(self._operations[label]) and random.random() < 0.1
                case = data.draw(cases[label, GenerationMode.NEGATIVE if wrong else GenerationMode.POSITIVE])
                self._step(
                    case,
                    random.choice((first, first, first, first, *callers)),
                    known_ids,
                    deleted,
                    None if wrong else random,
                )

        sequence()

    def _step(
        self, case: Case, headers: Headers, known_ids: KnownIds, deleted: set[str], random: Random | None
    ) -> None:
        """One request of a sequence. A conversation that was deleted stays away until it is restored."""
        label = cast(str, case.operation.label)
        if random is not None:
            known_ids.fill_case(case, random)
        response = self._ask(case, headers)
        conversation_id = case.path_parameters.get("conversation_id", "")
        known_ids.record(case, response)
        if label == RESTORE and response.status_code == 200:
            deleted.discard(conversation_id)
        assert conversation_id not in deleted or response.status_code >= 400, (label, response.content)
        if label == DELETE and response.status_code == 200:
            deleted.add(conversation_id)

    def _ask(self, case: Case, headers: Headers) -> schemathesis.Response:
        response = send_case(case, self._url, {**headers, **choose_accept_header(case)})
        self.status_counts[case.operation.label, response.status_code] += 1
        cast(Any, case).validate_response(response, checks=CHECKS)
        return response


def _accepts_wrong_input(operation: Any) -> bool:
    """A path takes any text, so only what has more to it can be asked in a wrong way."""
    return bool(operation.body or operation.query)


@pytest.mark.parametrize(
    ("keys", "headers"),
    [((), NOBODY), (KEYS, ANN), (KEYS, OPERATOR)],
    ids=["local", "a user", "an operator"],
)
def test_every_operation_by_itself_answers_as_its_page_tells(
    tmp_path: Path, keys: Sequence[Any], headers: Headers
) -> None:
    with serve_in_thread(partial(fuzzed_app, f"sqlite:///{tmp_path}/toolyard.db", keys)) as url:
        fuzz = Fuzzer(url, fetch_openapi(url), *NOT_AT_RANDOM, *(() if keys else (FIRST_KEY,)))
        # The boundaries are those of the page, not of the caller: `make fuzz` tries them with each.
        fuzz.run_each(headers, has_boundaries=not keys or EXAMPLES >= 50)


@pytest.mark.parametrize(
    ("keys", "callers"), [((), (NOBODY,)), (KEYS, (ANN, OPERATOR, BOSS))], ids=["local", "with keys"]
)
def test_sequences_of_operations_answer_as_their_page_tells(keys: Sequence[Any], callers: Sequence[Headers]) -> None:
    with serve_in_thread(partial(fuzzed_app, "memory:", keys)) as url:
        fuzz = Fuzzer(url, forbid_unknown_fields(fetch_openapi(url)), *NOT_AT_RANDOM, *(() if keys else (FIRST_KEY,)))
        fuzz.run_sequences(*callers)
    reached = {label.rpartition("/")[2] for label, status in fuzz.status_counts if status < 300}
    assert {"chat", "messages"} <= reached and len(reached) > 5, (
        fuzz.status_counts
    )  # which others depends on how fast runs end


@get("/openapi.json", include_in_schema=False, sync_to_thread=False)
def serve_openapi(request: Request[object, object, State]) -> dict[str, Any]:
    return request.app.openapi_schema.to_schema()


def serve_routes(*routes: HTTPRouteHandler, trace: str = "trace") -> AbstractContextManager[str]:
    """Another server than ours, to see that the checks can fail."""

    def add_trace(response: Response[object]) -> Response[object]:
        if trace:
            response.headers["x-correlation-id"] = trace
        return response

    def handle_error(request: Request[object, object, State], error: Exception) -> Response[dict[str, object]]:
        status = getattr(error, "status_code", 500)
        body: dict[str, object] = {
            "ok": False,
            "success": False,
            "error": "",
            "error_type": "",
            "details": {},
            "correlation_id": trace,
        }
        return Response(body, status_code=status, headers={"x-correlation-id": trace} if trace else {})

    @asynccontextmanager
    async def open_app() -> AsyncGenerator[AsgiApp, None]:
        app = Litestar(
            [serve_openapi, *routes],
            logging_config=None,
            after_request=add_trace,
            exception_handlers={Exception: handle_error},
        )
        yield cast(AsgiApp, app)

    return serve_in_thread(open_app)


class NumberAnswer(Struct):
    number: int


@get("/it", sync_to_thread=False)
def return_number() -> NumberAnswer:
    return NumberAnswer(number=1)


@get("/it", sync_to_thread=False)
def return_untraced_number() -> NumberAnswer:  # of its own: Litestar keeps what a route's first application adds to it
    return NumberAnswer(number=1)


@get("/it", sync_to_thread=False)
def raise_bug() -> NumberAnswer:
    raise RuntimeError("a bug")


@get("/it", responses={503: ResponseSpec(NumberAnswer)}, sync_to_thread=False)
def return_unavailable() -> Response[NumberAnswer]:
    return Response(NumberAnswer(number=1), status_code=503)


@get("/it", sync_to_thread=False)
def return_undocumented_status() -> Response[NumberAnswer]:
    return Response(NumberAnswer(number=1), status_code=418)


@get("/it", sync_to_thread=False)
def return_html() -> Response[str]:
    return Response("<p>1</p>", media_type="text/html")


@get("/it", sync_to_thread=False)
def return_wrong_type() -> Response[NumberAnswer]:
    return Response(cast(NumberAnswer, {"number": "one"}))


def test_a_sound_server_passes() -> None:
    with serve_routes(return_number) as url:
        fuzz = Fuzzer(url, fetch_openapi(url))
        fuzz.run_each({})
    assert fuzz.status_counts["GET /it", 200] > 0


@pytest.mark.parametrize(
    ("route", "trace", "expected"),
    [
        (raise_bug, "trace", "Server error"),
        (return_unavailable, "trace", "Server error"),
        (return_undocumented_status, "trace", "Undocumented"),
        (return_html, "trace", "no answer is 'text/html'"),
        (return_wrong_type, "trace", "Response violates schema"),
        (return_untraced_number, "", "there are 0 correlation ids"),
    ],
)
def test_a_server_that_breaks_its_word_is_caught(route: HTTPRouteHandler, trace: str, expected: str) -> None:
    with serve_routes(route, trace=trace) as url, pytest.raises(FailureGroup, match=expected):
        Fuzzer(url, fetch_openapi(url)).run_each({})


class ConversationRef(Struct):
    id: str


class ConversationAnswer(Struct):
    conversation: ConversationRef


ONE_ANSWER = ConversationAnswer(conversation=ConversationRef(id="one"))


@post("/conversations", sync_to_thread=False)
def make() -> ConversationAnswer:
    return ONE_ANSWER


@delete("/conversations/{conversation_id:str}", status_code=200, sync_to_thread=False)
def forget(conversation_id: FromPath[str]) -> ConversationAnswer:
    return ONE_ANSWER


@get("/conversations/{conversation_id:str}", sync_to_thread=False)
def show(conversation_id: FromPath[str]) -> ConversationAnswer:
    return ONE_ANSWER


@post("/conversations/{conversation_id:str}/chat", sync_to_thread=False)
def chat(conversation_id: FromPath[str]) -> ConversationAnswer:
    return ONE_ANSWER


def test_a_conversation_that_outlives_its_end_is_caught_by_a_sequence() -> None:
    with (
        serve_routes(make, forget, show, chat) as url,
        pytest.raises(AssertionError, match=r"not in \{'one'\}"),
    ):
        Fuzzer(url, fetch_openapi(url)).run_sequences({})
