"""Codex CLI against `/v1/responses`, by HTTP and on a WebSocket: its tools and the server's in one run."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct

from surfaces.openai.clients import Served, add_to_groceries, added, order, serve_model
from surfaces.openai.real_clients.codex import Codex, CodexAnswer, build_config
from toolyard.core.items import ImagePart, ModelText, Result, UserMessage
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import Script, Scripted, call, say, together

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PATCH = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\n"
TEST_TIMEOUT_S = 240.0


class Setup(Struct, frozen=True):
    served: Served
    codex: Codex

    def list_results(self) -> list[Result]:
        """Return the results in the last model request."""
        return [item for item in self.served.model.requests[-1].history if isinstance(item, Result)]


@pytest.fixture(params=[False, True], ids=["http", "websocket"])
def has_websocket(request: pytest.FixtureRequest) -> bool:
    return request.param


@asynccontextmanager
async def start(
    folder: Path, script: Script, *, has_websocket: bool, model: str = "default"
) -> AsyncGenerator[Setup, None]:
    """Serve a script under the name of a model, which tells Codex which tools to send, and set Codex up for it."""
    scripted = Scripted(script)

    def find_model(_: str) -> Scripted:
        return scripted

    async with serve_model(
        scripted,
        [add_to_groceries, order],
        timeout_s=TEST_TIMEOUT_S,
        named_model=find_model,
        allowed_models=frozenset({model}),
    ) as served:
        config = build_config(folder, served.url, model=model, has_websocket=has_websocket)
        yield Setup(served, Codex(folder, config))


def assert_done(answer: CodexAnswer, text: str) -> None:
    assert (answer.error, answer.text) == ("", text), answer


async def test_codex_runs_commands_and_the_server_its_own_tools(tmp_path: Path, has_websocket: bool) -> None:
    script = [
        call("add_to_groceries", item="milk"),
        together(
            call("exec_command", cmd="echo hello > made.txt; cat made.txt"), call("add_to_groceries", item="eggs")
        ),
        say("All done."),
    ]
    async with start(tmp_path, script, has_websocket=has_websocket) as setup:
        answer = await setup.codex.ask("Make a file")
        assert_done(answer, "All done.")
        assert (answer.list_outputs(), added) == (["hello\n"], ["milk", "eggs"])
        assert (setup.codex.work / "made.txt").read_text() == "hello\n"
        assert [result.tool for result in setup.list_results()] == [
            "add_to_groceries",
            "exec_command",
            "add_to_groceries",
        ]


async def test_codex_shows_an_image_and_calls_its_mcp_server(tmp_path: Path, has_websocket: bool) -> None:
    path = tmp_path / "pixel.png"
    path.write_bytes(PIXEL)
    script = [call("view_image", path=str(path)), call("mcp__plain__add"), say("Seen.")]
    async with start(tmp_path, script, has_websocket=has_websocket) as setup:
        answer = await setup.codex.ask("Look")
        assert_done(answer, "Seen.")
        assert [item.tool for item in answer.items if item.type == "mcp_tool_call"] == ["add"]
        image, sum_of_server = setup.list_results()
    assert [type(part) for part in image.parts] == [ImagePart]
    assert "add of process" in sum_of_server.content


async def test_codex_resumes_a_thread(tmp_path: Path, has_websocket: bool) -> None:
    script = [call("exec_command", cmd="echo one"), say("First."), say("Second.")]
    async with start(tmp_path, script, has_websocket=has_websocket) as setup:
        assert_done(await setup.codex.ask("Begin"), "First.")
        assert_done(await setup.codex.ask("Go on", resumes=True), "Second.")
        history = setup.served.model.requests[-1].history
    texts = [item.text for item in history if isinstance(item, UserMessage | ModelText)]
    assert [text for text in texts if text in ("Begin", "First.", "Go on")] == ["Begin", "First.", "Go on"]
    assert [item.tool for item in history if isinstance(item, Result)] == ["exec_command"]


async def test_codex_is_told_of_an_approval_and_goes_on_after_it(tmp_path: Path, has_websocket: bool) -> None:
    script = [call("order", item="milk"), say("Ordered."), say("You are welcome.")]
    async with start(tmp_path, script, has_websocket=has_websocket) as setup:
        first = await setup.codex.ask("Order milk")
        assert "`order` waits for an approval" in first.text
        conversation, call_id = parse_call_id(first.text.partition("?call=")[2])
        await setup.served.yard.approve(conversation, call_id)
        assert_done(await setup.codex.ask("And now?", resumes=True), "You are welcome.")
        assert added == ["ordered milk"]
        assert [result.content for result in setup.list_results()] == ["ordered milk"]


async def test_codex_patches_a_file_and_searches_for_a_tool(tmp_path: Path, has_websocket: bool) -> None:
    script = [
        call("apply_patch", input=PATCH),
        call("tool_search", query="plain add"),
        call("mcp__plain__add"),
        say("Patched."),
    ]
    async with start(tmp_path, script, has_websocket=has_websocket, model="gpt-5.5") as setup:
        answer = await setup.codex.ask("Patch")
        assert_done(answer, "Patched.")
        assert (setup.codex.work / "new.txt").read_text() == "hello\n"
        results = setup.list_results()
    assert "mcp__plain__add" in results[1].content
    assert "add of process" in results[2].content


async def test_codex_runs_a_program_of_its_newest_models(tmp_path: Path, has_websocket: bool) -> None:
    # It also sends an output of the call before the call has ended, and another one then.
    program = 'notify("soon"); const result = await tools.exec_command({cmd: "echo hello"}); text(result.output);'
    script = [call("functions__exec", input=program), say("Run.")]
    async with start(tmp_path, script, has_websocket=has_websocket, model="gpt-6.1-sol") as setup:
        answer = await setup.codex.ask("Run")
        assert_done(answer, "Run.")
        (result,) = setup.list_results()
    assert "soon" in result.content and "hello" in result.content
