"""A program in the terminal: its text, its calls with their lines, what asks, and what it printed."""

from collections.abc import Sequence

import pytest

from support import open_yard
from toolyard import Yard
from toolyard.app import Wiring
from toolyard.cli.commands.serve import build_welcome
from toolyard.cli.conversation import LocalChatClient
from toolyard.cli.one_shot import OneShotChat
from toolyard.cli.screen import Screen
from toolyard.cli.terminal import Terminal
from toolyard.core.conversation.events import Entry, RunSuspended
from toolyard.core.ports import PolicyRequest, Verdict
from toolyard.server.config import Config
from toolyard.testing import Scripted, call, say
from venues.code.shop import ProgramShop

CODE = """
a = await add(item="x")
print("added it")
try:
    b = await refund(order="4711")
except PermissionError:
    b = "kept"
print("done")
[a, b]
"""


class NotingTerminal(Terminal):
    """A terminal that notes what is printed and answers questions in turn."""

    def __init__(self, answers: Sequence[str]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._answers = [*answers]

    def write(self, text: str) -> None:
        self.lines.append(text)

    def write_line(self, text: str = "") -> None:
        self.lines.append(text)

    def ask(self, prompt: str) -> str:
        self.lines.append(prompt)
        return self._answers.pop(0)


async def _chat(yard: Yard, *answers: str) -> list[str]:
    """Return the lines of a chat whose user gives these answers."""
    terminal = NotingTerminal(answers)
    screen, client = Screen(terminal), LocalChatClient(yard)
    async for item in client.send("go"):
        screen.show(item)
        if isinstance(item, Entry) and isinstance(item.event, RunSuspended):
            for call_id in screen.list_waiting_calls():
                await client.decide(screen.ask_decision(call_id))
            assert screen.list_waiting_calls() == [], "a call that was decided is not asked about again"
    return terminal.lines


def _drop_times(lines: Sequence[str]) -> list[str]:
    return [line.partition(" (")[0] if "←" in line else line for line in lines]


async def test_a_program_is_shown_once_with_its_calls_below_it_and_what_it_printed() -> None:
    shop = ProgramShop()
    async with open_yard([call("run_code", code=CODE), say("ok")], shop.tools, code=True) as yard:
        lines = _drop_times(await _chat(yard, "y"))
    assert lines == [
        "  → run_code …",
        *(f"    {number:3} │ {line}" for number, line in enumerate(CODE.splitlines(), 1)),
        "      → line 2: add …",
        "      ← add: ok",
        "    added it",
        "  ? line 5: refund asks first (approval = ask):",
        '    {"order":"4711"}',
        "    run it? [y]es, [n]o, [e]dit: ",
        "      → line 5: refund …",
        "      ← refund: ok",
        "  ← run_code: ok",
        "    done",
        "ok",
    ]
    assert shop.actions == ["add x", "refund 4711 1"]


async def test_a_denial_at_the_prompt_raises_in_the_program() -> None:
    shop = ProgramShop()
    async with open_yard([call("run_code", code=CODE), say("ok")], shop.tools, code=True) as yard:
        lines = _drop_times(await _chat(yard, "n", "too dear"))
    assert "      ← refund: denied" in lines
    assert lines[-3:] == ["  ← run_code: ok", "    done", "ok"]
    assert lines.count("    added it") == 1
    assert shop.actions == ["add x"]


SEVERAL = """
import asyncio
async def attempt(order):
    try:
        return await refund(order=order)
    except PermissionError:
        return "kept"
await asyncio.gather(*[attempt(order) for order in ("1", "2", "3")])
"""


@pytest.mark.parametrize(
    ("answers", "refunded", "questions"),
    [(["a"], ["1", "2", "3"], 1), (["n", "", "a"], ["2", "3"], 2), (["y", "d", "no"], ["1"], 2)],
)
async def test_calls_of_a_program_that_ask_at_once_are_decided_alike_or_one_by_one(
    answers: list[str], refunded: list[str], questions: int
) -> None:
    shop = ProgramShop()
    async with open_yard([call("run_code", code=SEVERAL), say("ok")], shop.tools, code=True) as yard:
        lines = await _chat(yard, *answers)
    assert sorted(shop.actions) == [f"refund {order} 1" for order in refunded]
    assert '    and line 5: refund {"order":"3"}' in lines
    assert sum("run it?" in line for line in lines) == questions
    assert "    run it? [y]es, [n]o, [e]dit, [a]ll 3, [d]eny all 3: " in lines


@pytest.mark.parametrize(
    ("answers", "shown_again"),
    [(["y"], []), (["e", '{"code": "2 + 2"}'], ["      1 │ 2 + 2"])],
    ids=["as it is", "edited"],
)
async def test_a_program_that_asks_first_is_shown_as_text(answers: list[str], shown_again: list[str]) -> None:
    def ask_about_programs(request: PolicyRequest) -> Verdict | None:
        return Verdict("ask", "programs") if request.arguments is not None else None

    script = [call("run_code", code="1 + 1\n"), say("ok")]
    async with open_yard(script, [], code=True, rules=[ask_about_programs]) as yard:
        lines = _drop_times(await _chat(yard, *answers))
    lines = [line for line in lines if "JSON" not in line]
    assert lines == [
        "  ? run_code asks first (programs):",
        "      1 │ 1 + 1",
        "    run it? [y]es, [n]o, [e]dit: ",
        "  → run_code …",
        *shown_again,
        "  ← run_code: ok",
        "ok",
    ]


async def test_one_message_whose_program_asks_tells_the_lines_and_the_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with open_yard([call("run_code", code=SEVERAL)], ProgramShop().tools, code=True) as yard:
        assert await OneShotChat(LocalChatClient(yard)).ask("go") == 1
    *asked, _ = capsys.readouterr().err.splitlines()
    reason = "needs an approval (approval = ask), so there is no answer yet"
    assert asked == [f'toolyard: line 5: refund {{"order":"{order}"}} {reason}' for order in "123"]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_server_tells_at_its_start_whether_it_runs_programs(enabled: bool) -> None:
    wired = Wiring(model=Scripted([]), code=enabled)
    lines = list(build_welcome(Config(), wired, "http://127.0.0.1:8080", asks_for_keys=False))
    assert ("  programs of models may call these tools, with run_code" in lines) is enabled
