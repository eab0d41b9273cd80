"""The shape of our costs, in seconds and without peers: what must not grow does not, and the bench itself runs.

Process CPU, the lowest of several, is compared with itself only; the figures proper are `make bench`.
"""

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time

from toolyard import UserMessage, Yard, tool
from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.items import Call, Item, ModelText, TextPart
from toolyard.core.ports import ModelRequest
from toolyard.core.settings.limits import Budget
from toolyard.models.chat import to_wire

BENCH = Path(__file__).parent.parent / "bench"
FIRST, LAST = 3, 13
MAX_GROWTH = 3
ALL = Budget(tools=10_000, schema_bytes=10_000_000)


class WritingModel:
    """Writes every request as the wire does, asks for `add` some times, then ends."""

    def __init__(self, *, forgetful: bool = False) -> None:
        self.sent_bytes = 0
        self._forgetful = forgetful

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        if self._forgetful:
            request.memo.clear()
        self.sent_bytes = len(to_wire(request))
        clock = request.clock
        if request.turn <= LAST:
            call = Call(id=clock.new_id("call"), at=clock.now(), tool="add", arguments={"a": request.turn, "b": 1})
            yield TurnEnded(items=(call,), finish="calls")
        else:
            yield TurnEnded(items=(ModelText(id=clock.new_id("text"), at=clock.now(), text="done"),), finish="stop")

    async def close(self) -> None:
        """Nothing to close."""


def build_history(messages: int) -> Sequence[Item]:
    """A question after so many messages, the user's and the model's by turns."""
    items: list[Item] = []
    for number in range(messages // 2):
        question = TextPart(text=f"And what about number {number}?")
        items.append(UserMessage(id=f"asked_{number}", at=0.0, parts=(question,)))
        items.append(ModelText(id=f"said_{number}", at=0.0, text=f"Number {number} is fine, as it was."))
    return [*items, UserMessage(id="question", at=0.0, parts=(TextPart(text="Please add."),))]


async def measure_turn_cpu_s(model: WritingModel, *, messages: int = 0, tools: int = 1, budget: Budget = ALL) -> float:
    """CPU of one turn in the middle of a run: the lowest of several runs."""
    ticks: list[float] = []

    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        ticks.append(process_time())
        return a + b

    others = [tool(name=f"add_{number}")(add) for number in range(1, tools)]
    each: list[float] = []
    async with Yard(tools=[add, *others], model=model, budget=budget) as yard:
        for _ in range(8):
            ticks.clear()
            await yard.ask(build_history(messages))
            each.append((ticks[LAST - 1] - ticks[FIRST - 1]) / (LAST - FIRST))
    return min(each)


async def test_a_request_after_five_thousand_messages_costs_about_what_it_costs_after_ten() -> None:
    short, long = WritingModel(), WritingModel()
    few = await measure_turn_cpu_s(short, messages=10)
    many = await measure_turn_cpu_s(long, messages=5000)
    assert long.sent_bytes > 10 * short.sent_bytes, "the history was not sent"
    assert many <= MAX_GROWTH * few


async def test_the_comparison_notices_a_history_that_is_encoded_anew_each_turn() -> None:
    few = await measure_turn_cpu_s(WritingModel(forgetful=True), messages=10)
    many = await measure_turn_cpu_s(WritingModel(forgetful=True), messages=5000)
    assert many > MAX_GROWTH * few


async def test_a_request_with_a_thousand_tools_costs_about_what_it_costs_with_ten() -> None:
    short, long = WritingModel(), WritingModel()
    few = await measure_turn_cpu_s(short, tools=10)
    many = await measure_turn_cpu_s(long, tools=1000)
    assert long.sent_bytes > 10 * short.sent_bytes, "the tools were not sent"
    assert many <= MAX_GROWTH * few


async def test_a_thousand_tools_cost_a_request_what_a_few_do_in_bytes_too_if_they_are_found_instead_of_shown() -> None:
    short, long = WritingModel(), WritingModel()
    few = await measure_turn_cpu_s(short, tools=10)
    many = await measure_turn_cpu_s(long, tools=1000, budget=Budget())
    assert long.sent_bytes < short.sent_bytes + Budget().schema_bytes
    assert many <= MAX_GROWTH * few


def test_many_runs_at_once_on_sqlite_end_well_and_share_their_commits() -> None:
    figures = run_script("loops/many_runs.py", "100", "5")
    assert figures["errors"] == 0
    assert figures["commits_per_turn"] < 1


def test_our_loop_and_the_hand_loop_do_the_same_work_on_the_mock_server() -> None:
    with mock_server() as url:
        order = json.dumps({"scenario": "turns", "url": url, "least_s": 0})
        for script in ("loops/toolyard_loop.py", "loops/hand_loop.py"):
            figures = run_script(script, stdin=order)  # a loop that skips calls or text answers with an error
            assert figures.get("us", 0) > 0, figures


def run_script(script: str, *arguments: str, stdin: str = "") -> dict[str, float]:
    """The one line of JSON that a script of the bench prints."""
    done = subprocess.run(
        [sys.executable, str(BENCH / script), *arguments], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def mock_server() -> Generator[str, None, None]:
    command = [sys.executable, str(BENCH / "mock_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin and server.stdout
        with server.stdin:  # it ends when this does
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"


def run_in_bench(code: str) -> subprocess.CompletedProcess[str]:
    """Run code that can import the modules of the bench."""
    return subprocess.run([sys.executable, "-c", code], cwd=BENCH, capture_output=True, text=True, check=False)


def test_a_peer_that_cannot_be_imported_is_an_error_that_says_what_to_install() -> None:
    done = run_in_bench("""
import sys, pathlib, peers
home = pathlib.Path(sys.prefix)
there = peers.Peer("json", "json", ("json==1",), "import json", "", home)
missing = peers.Peer("rival", "rival", ("rival[openai]==2.0", "needed==1.0"), "import json, needed_by_rival", "", home)
peers.require([there])
peers.require([there, missing])
""")
    assert done.returncode == 1 and "PeerError: rival cannot be used" in done.stderr
    assert "No module named 'needed_by_rival'" in done.stderr
    assert "-m pip install 'rival[openai]==2.0' needed==1.0" in done.stderr


def test_the_servers_that_are_compared_say_everything_that_they_import() -> None:
    done = run_in_bench("""
import ast, pathlib, sys, server_contest
own = {file.stem for folder in ("servers", "loops") for file in pathlib.Path(folder).glob("*.py")}
for peer in (*server_contest.PEERS, server_contest.PROXY):
    script = ast.parse(pathlib.Path("servers", server_contest.SCRIPTS[peer.name]).read_text())
    modules = {node.module for node in ast.walk(script) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(script) if isinstance(node, ast.Import) for alias in node.names}
    imported = {name.partition(".")[0] for name in modules} - own - {*sys.stdlib_module_names, "pydantic"}
    imports = [node for node in ast.walk(ast.parse(peer.imports)) if isinstance(node, ast.Import)]
    named = {alias.name.partition(".")[0] for node in imports for alias in node.names}
    print(imported - named or "all")
""")
    assert (done.returncode, done.stdout.split()) == (0, ["all", "all", "all"]), done


def test_a_row_without_its_peer_and_a_peer_that_left_are_misses() -> None:
    done = run_in_bench("""
import report
from cases import Figure, at_most
figures = [at_most("a turn", {"Toolyard": 1.0}, 0.1, "rival"), Figure("shown only")]
print(report.find_misses(figures, {}, with_peers=True))
print(report.find_misses(figures, {}, with_peers=False))
print(report.find_misses([], {"rival": "ImportError: httpx"}, with_peers=True))
""")
    compared, alone, left = done.stdout.splitlines()
    assert "not measured: a turn must be" in compared and compared.count("'") == 2, done.stderr
    assert alone == "[]" and left == "['rival left the contest: ImportError: httpx']"


def test_a_row_is_slower_if_its_ratio_is_above_the_bound_in_every_round() -> None:
    done = run_in_bench("""
from compare import ROWS, judge
row, other = ROWS[:2]
old = [[100.0, 200.0], [100.0, 100.0]]
drifted = judge(row, old, [[106.0, 212.0], [107.0, 107.0]])
noisy = judge(row, old, [[150.0, 300.0], [104.0, 104.0]])
allowed = judge(row, old, [[106.0, 212.0], [107.0, 107.0]], [row.name])
other_is_allowed = judge(row, old, [[106.0, 212.0], [107.0, 107.0]], [other.name])
missing = judge(row, [[], []], [[106.0], [107.0]])
faster = judge(row, old, [[50.0, 100.0], [50.0, 50.0]])
for judgement in (drifted, noisy, allowed, other_is_allowed, missing, faster):
    print(judgement.is_slower, judgement.mark, sep=":")
""")
    assert done.stdout.splitlines() == [
        "True:SLOWER",
        "False:",
        "False:slower, allowed",
        "True:SLOWER",
        "False:not in the old tree",
        "False:faster",
    ], done.stderr


def test_another_commit_and_this_tree_are_measured_in_turn() -> None:
    arguments = ["HEAD", "--only", "turn-memory", "--rounds", "1", "--allow", "turn-memory"]
    command = [sys.executable, str(BENCH / "compare.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [row] = [line.split() for line in done.stdout.splitlines() if line.startswith("turn-memory")]
    assert "tool" in row and "–" not in row, done.stdout


def test_a_row_that_does_not_exist_cannot_be_allowed() -> None:
    command = [sys.executable, str(BENCH / "compare.py"), "HEAD", "--allow", "turn-memry"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "there is no row 'turn-memry'" in done.stderr
