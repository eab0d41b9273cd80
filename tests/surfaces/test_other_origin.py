"""A front end that another server serves, as the seed draws it: port 3000 asks port 8080, in a real browser."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from examples.browser import launch_browser
from surfaces.other_origin import ANN, open_page_of_another_origin
from toolyard.core.store import Key

ASK = """async ([url, headers, path, body]) => {
  const answer = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  })
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ""
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) text += piece.value
  const events = text.split("\\n").filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice(6)))
  return { status: answer.status, correlation: answer.headers.get("x-correlation-id"), events }
}"""
TRY = """([url, headers, path, body]) => fetch(`${url}${path}`, {
  method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body),
}).then((answer) => `answered ${answer.status}`, (error) => `failed: ${error.name}`)"""
PROMPT = "Add milk to groceries"
RESPOND = ("/ai/respond", {"prompt": PROMPT, "mode": "tools+chat"})
AI_SDK = (
    "/ai-sdk/chat",
    {"id": "chat-1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": PROMPT}]}]},
)
AG_UI = (
    "/ag-ui",
    {"threadId": "thread-1", "runId": "run-1", "messages": [{"id": "m1", "role": "user", "content": PROMPT}]},
)
every_stream = pytest.mark.parametrize(
    ("path", "body", "types"),
    [
        (*RESPOND, "tool.status tool.status text.delta done"),
        (
            *AI_SDK,
            "start start-step tool-input-start tool-input-delta tool-input-available tool-output-available finish-step "
            "start-step text-start text-delta text-end data-usage finish-step finish",
        ),
        (
            *AG_UI,
            "RUN_STARTED STEP_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END STEP_FINISHED TOOL_CALL_RESULT "
            "STEP_STARTED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END STEP_FINISHED RUN_FINISHED",
        ),
    ],
    ids=["respond", "ai-sdk", "ag-ui"],
)
SIGNED_IN = {"Authorization": "Bearer ann-secret"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncGenerator[Browser, None]:
    async with launch_browser() as launched:
        yield launched


@pytest.mark.proves("003.front-end-elsewhere")
@pytest.mark.parametrize(("keys", "headers"), [([], {}), ([ANN], SIGNED_IN)], ids=["no key", "key"])
@every_stream
async def test_a_page_of_a_listed_origin_is_preflighted_and_reads_the_stream(
    browser: Browser, keys: list[Key], headers: dict[str, str], path: str, body: object, types: str
) -> None:
    async with open_page_of_another_origin(browser, keys=keys) as (page, backend):
        answer = await page.evaluate(ASK, [backend.url, headers, path, body])
        assert answer["status"] == 200 and answer["correlation"]
        assert [event["type"] for event in answer["events"]] == types.split()
        assert backend.requests == [("OPTIONS", path), ("POST", path)]


async def test_a_page_of_another_origin_can_read_errors(browser: Browser) -> None:
    async with open_page_of_another_origin(browser, keys=[ANN], expected="401") as (page, backend):
        wrong = {"Authorization": "Bearer wrong"}
        for path, body in (RESPOND, AI_SDK, AG_UI):
            assert await page.evaluate(TRY, [backend.url, wrong, path, body]) == "answered 401"


@pytest.mark.parametrize(
    ("allowed_origin", "keys"), [("https://other.example", []), ("https://other.example", [ANN]), ("*", [])]
)
async def test_a_page_of_an_origin_that_is_not_listed_gets_nothing_and_does_nothing(
    browser: Browser, allowed_origin: str, keys: list[Key]
) -> None:
    opened = open_page_of_another_origin(browser, allowed_origin=allowed_origin, keys=keys, expected="")
    async with opened as (page, backend):
        for path, body in (RESPOND, AI_SDK, AG_UI):
            assert await page.evaluate(TRY, [backend.url, SIGNED_IN, path, body]) == "failed: TypeError"
        assert backend.requests == [("OPTIONS", path) for path, _ in (RESPOND, AI_SDK, AG_UI)]


async def test_a_star_lists_every_origin_where_a_key_is_needed(browser: Browser) -> None:
    async with open_page_of_another_origin(browser, allowed_origin="*", keys=[ANN]) as (page, backend):
        for path, body in (RESPOND, AI_SDK, AG_UI):
            answer = await page.evaluate(ASK, [backend.url, SIGNED_IN, path, body])
            assert answer["status"] == 200 and answer["events"][-1]["type"] in ("done", "finish", "RUN_FINISHED")
