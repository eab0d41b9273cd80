"""One replica of the cluster storm: a server whose tools pay, and whose ledger only grows.

`cluster_child.py STORE LEDGER NAME PORT LEASE_S [programs] [rerun] [unfenced] [deadly]`: with `programs` every other
conversation pays by a program of `run_code`, and may look things up. `rerun` runs calls again whose owner
died, and `unfenced` appends whatever others did meanwhile. Both are negative controls of the checker: `rerun` with
`programs` pays by programs only, and with `unfenced` nobody is asked, so that no owner stops at an approval. With
`deadly` some logs end each process that takes them up.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of the tests
from crash.ledger import LedgerWriter
from toolyard import Context, Limits, ToolLike, configure_logging, tool
from toolyard.app import Wiring
from toolyard.core.conversation.events import ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.store import MAX_DEATHS, Claim
from toolyard.engine.log.journal import Journal
from toolyard.engine.replicas.ownership import Driver
from toolyard.server.serving import serve
from toolyard.stores.postgres import PostgresStore, writer
from toolyard.stores.postgres.lease import Lease
from toolyard.stores.postgres_settings import PostgresSettings
from toolyard.testing import Scripted, Turn, call, say, together
from toolyard.yard import Yard

MIN_PAY_S, MAX_PAY_S = 0.010, 0.120
PAYMENTS = 6
PIECE_S = 0.03
STORY = [f"piece {number}, Grüße 👋. " for number in range(40)]
DRAIN_S = 0.5


PROGRAM = """
import asyncio

async def attempt(work):
    try:
        return await work
    except RuntimeError as error:
        return str(error)

amounts = {amounts}
done = [await attempt(pay(amount=amounts[0]))]
work = [pay(amount=amounts[1]), look(at=1), pay(amount=amounts[2]), pay_approved(amount=amounts[3]), look(at=2)]
done += await asyncio.gather(*[attempt(each) for each in work])
for amount in amounts[4:]:
    done += [await attempt(pay(amount=amount)), await attempt(look(at=amount))]
len(done)
"""
"""Pays as `pay_all` does: one payment, three at once, of which a person approves one, and two after each other."""


def list_amounts(number: int) -> list[int]:
    """Return the amounts that the conversation of this number pays: no two conversations share one."""
    return [number * PAYMENTS + step for step in range(PAYMENTS)]


class SlowScripted(Scripted):
    """A scripted model that takes its time between the pieces of a text."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        async for delta in super().stream(request):
            if isinstance(delta, TextAppended):
                await asyncio.sleep(PIECE_S)
            yield delta


def script(request: ModelRequest, *, programs_only: bool = False) -> Turn:
    """Answer `pay NUMBER`, or one of the words that tests use."""
    question = next(item for item in reversed(request.history) if isinstance(item, UserMessage))
    word, _, number = question.text.partition(" ")
    done = sum(isinstance(item, Result) for item in request.history)
    match word:
        case "pay" if pays_by_program(request, int(number)) or programs_only:
            return say("all paid") if done else call("run_code", code=PROGRAM.format(amounts=list_amounts(int(number))))
        case "pay":
            return pay_all(int(number), done)
        case "order":
            return say("ordered") if done else call("pay_approved", amount=int(number))
        case "crash" | "deadly" | "poison":
            return say("it came back") if done else call("crash")
        case "tell":
            return together(say("First I pay. "), call("pay", amount=int(number))) if not done else say(*STORY)
        case _:
            return say("yes")


def pays_by_program(request: ModelRequest, number: int) -> bool:
    return number % 2 == 0 and any(tool.name == "run_code" for tool in request.offer.tools)


def pay_all(number: int, done: int) -> Turn:
    """Return the next of six payments: two of them at once, and one that a person has to approve."""
    amounts = list_amounts(number)
    if done == 1:
        return together(call("pay", amount=amounts[1]), call("pay", amount=amounts[2]))
    if done == PAYMENTS:
        return say("all paid")
    return call("pay_approved" if done == 3 else "pay", amount=amounts[done])


def end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def build_tools(ledger: LedgerWriter, *, rerun: bool, unfenced: bool) -> list[ToolLike]:
    async def take_effect(amount: int, context: Context) -> str:
        duration_s = random.uniform(MIN_PAY_S, MAX_PAY_S)
        if rerun:  # before the call is seen to be in flight: each call that is hit has taken effect
            ledger.note("pay", context.conversation, context.call_id, amount)
        ledger.note("begin", context.conversation, context.call_id, amount)
        await asyncio.sleep(duration_s / 2)
        if not rerun:
            ledger.note("pay", context.conversation, context.call_id, amount)
        await asyncio.sleep(duration_s / 2)
        ledger.note("end", context.conversation, context.call_id, amount)
        return f"paid {amount}"

    @tool(idempotent=rerun)
    async def pay(amount: int, context: Context) -> str:
        """Pay an amount, which must not happen twice."""
        return await take_effect(amount, context)

    @tool(approval="never" if unfenced else "ask", idempotent=rerun)
    async def pay_approved(amount: int, context: Context) -> str:
        """Pay an amount that a person approved, which must not happen twice."""
        return await take_effect(amount, context)

    @tool(idempotent=True)
    def crash() -> str:
        """End the process that runs it, each time."""
        end_process()
        return ""

    @tool(read_only=True)
    async def look(at: int) -> str:
        """Look something up."""
        await asyncio.sleep(random.uniform(MIN_PAY_S, MAX_PAY_S))
        return f"seen {at}"

    return [pay, pay_approved, crash, look]


def remove_fence() -> None:
    """Let every owner append, whoever claimed the conversation meanwhile, and start effects without a lease."""
    fence = "c.epoch = job.epoch AND c.epoch > 0 AND c.replica <> '' AND (job.count = 0 OR c.last_seq + 1 = job.first)"
    changes = {
        fence: "true",
        "last_seq = c.last_seq + job.count": "last_seq = greatest(c.last_seq, job.first + job.count - 1)",
        "FROM job JOIN advanced USING (id) WHERE count > 0": "FROM job JOIN advanced USING (id) WHERE count > 0 "
        "ON CONFLICT DO NOTHING",
    }
    for name in ("_APPEND", "_PROJECT", "_PROJECT_SPENDING"):
        statement: str = getattr(writer, name)
        for fenced, unfenced in changes.items():
            assert fenced in statement, f"{name} has changed: {fenced}"
            statement = statement.replace(fenced, unfenced)
        setattr(writer, name, statement)

    async def start_anyway(self: Lease) -> None:
        pass

    def ignore_losses(self: PostgresStore, handler: Callable[[Sequence[tuple[str, int]]], None]) -> None:
        pass

    Lease.ensure = start_anyway
    PostgresStore.on_lost = ignore_losses


def make_logs_deadly() -> None:
    """End each process that takes up a log with the message `poison`, or one with `deadly` whose run is not given up.

    That is what a log does that takes more memory than there is, or that meets a fault of the interpreter.
    """
    load_journal = Driver._load_journal  # pyright: ignore[reportPrivateUsage]

    async def load_or_die(self: Driver, claim: Claim) -> Journal:
        journal = await load_journal(self, claim)
        words = {item.text for item in journal.state.history if isinstance(item, UserMessage)}
        if "poison" in words or ("deadly" in words and 0 < claim.deaths < MAX_DEATHS):
            end_process()
        return journal

    Driver._load_journal = load_or_die  # pyright: ignore[reportPrivateUsage]


def main(store: str, ledger: str, name: str, port: int, lease_s: float, *controls: str) -> None:
    configure_logging("warning")
    if "unfenced" in controls:
        remove_fence()
    if "deadly" in controls:
        make_logs_deadly()
    wiring = Wiring(
        model=SlowScripted(partial(script, programs_only={"programs", "rerun"} <= set(controls))),
        tools=build_tools(LedgerWriter(Path(ledger), name), rerun="rerun" in controls, unfenced="unfenced" in controls),
        store=store,
        code="programs" in controls,
        postgres=PostgresSettings(lease_s=lease_s),
        drain_s=DRAIN_S,
        limits=Limits(turns_per_request=20, run_seconds=600),
    )

    def announce(url: str, yard: Yard) -> None:
        print(url, flush=True)

    serve(wiring, "127.0.0.1", port, announce)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]), *sys.argv[6:])
