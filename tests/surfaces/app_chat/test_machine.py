"""Two devices of one user do whatever they like, in any order: every call still takes exactly one result."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from surfaces.api_client import ApiClient, Json, build_yard, connect_api_client
from surfaces.app_client import PATH, user_message
from surfaces.fuzzed import make_settings
from toolyard import Yard
from toolyard.core.conversation.events import CallEnded, Entry
from toolyard.core.items import Call, Result, UserMessage
from toolyard.core.ports import ModelRequest
from toolyard.core.store import Key
from toolyard.engine.access.authentication import hash_key
from toolyard.surfaces.shared.call_ids import encode_call_id
from toolyard.testing import Scripted, Turn, call, say, together

DEVICES = [Key(name=name, hash=hash_key(name), user="ann") for name in ("phone", "tablet")]
MAX_TURNS = 3
devices = st.sampled_from(["phone", "tablet"])
# Positions, not the calls themselves: how many calls an interrupted run has handed out depends on timing, and what is
# drawn must not depend on it.
picks = st.lists(st.integers(0, 63), min_size=1, max_size=3, unique=True)
T = TypeVar("T")


def shopper(request: ModelRequest) -> Turn:
    """Asks for two calls and then for one, a few times for each message, and ends."""
    last = max(at for at, item in enumerate(request.history) if isinstance(item, UserMessage))
    turns = sum(isinstance(item, Call) for item in request.history[last:])
    if turns >= MAX_TURNS:
        return say("done")
    search_call = call("search_products")
    return search_call if turns else together(search_call, search_call)


class Devices(RuleBasedStateMachine):
    """What was handed out and taken is noted here; the log must say the same at every step."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._finished = asyncio.Event()
        self.conversation = ""
        self.handed_calls: dict[str, Json] = {}
        """Every call that some device was given, by its id there."""
        self.accepted_words: dict[str, str] = {}
        """The word that the server took for a call."""
        self.word_count = 0

    def _run(self, work: Coroutine[None, None, T]) -> T:
        async def in_time() -> T:
            async with asyncio.timeout(30):
                return await work

        return self._loop.run_until_complete(in_time())

    @initialize()
    def open(self) -> None:
        ready: asyncio.Future[tuple[Yard, ApiClient]] = self._loop.create_future()

        async def serve() -> None:
            async with build_yard(Scripted(shopper), keys=DEVICES) as yard, connect_api_client(yard) as http:
                ready.set_result((yard, http))
                await self._finished.wait()

        self._serving = self._loop.create_task(serve())
        self.yard, self.http = self._loop.run_until_complete(ready)

    def teardown(self) -> None:
        self._finished.set()
        self._loop.run_until_complete(self._serving)
        self._loop.close()

    def _post(self, device: str, body: Mapping[str, object]) -> tuple[int, Json]:
        async def send() -> tuple[int, Json]:
            status, reply, _ = await self.http.with_key(device).send_request("POST", PATH, body)
            return status, reply

        status, reply = self._run(send())
        if status == 200:
            self.conversation = reply["conversationId"]
            self.handed_calls |= {call["id"]: call for call in reply.get("toolCalls", ())}
        return status, reply

    @rule(device=devices, interrupt=st.booleans())
    def says_something(self, device: str, interrupt: bool) -> None:
        named = {"conversationId": self.conversation} if self.conversation else {}
        tools = [{"name": "search_products"}]
        body = {"messages": [user_message("go")], "tools": tools, "interrupt": interrupt, **named}
        status, reply = self._post(device, body)
        assert status == 200 or (status == 409 and "requests wait" in reply["error"]), reply

    @rule(device=devices, picks=picks, fails=st.booleans(), twice=st.booleans())
    def delivers(self, device: str, picks: list[int], fails: bool, twice: bool) -> None:
        """Results for some of the calls that there ever were; perhaps sent a second time, as after a lost answer."""
        if not self.handed_calls:
            return
        call_ids = list(self.handed_calls)
        chosen = list(dict.fromkeys(call_ids[pick % len(call_ids)] for pick in picks))
        self.word_count += 1
        word = f"word {self.word_count}"
        body = {"toolResults": [{"toolCallId": id, "error" if fails else "result": word} for id in chosen]}
        status, reply = self._post(device, body)
        assert status in (200, 409), reply
        if status == 200:
            assert not self.accepted_words.keys() & set(chosen), "a second result was taken"
            self.accepted_words |= dict.fromkeys(chosen, word)
        if twice:
            assert self._post(device, body)[0] == 409, "what was sent again was taken again, or for the first time"

    @rule(device=devices)
    def looks(self, device: str) -> None:
        if not self.conversation:
            return
        assert self._post(device, {"conversationId": self.conversation})[0] == 200

    @rule(device=devices)
    def stops(self, device: str) -> None:
        if not self.conversation:
            return

        async def cancel_run() -> int:
            path = f"/conversations/{self.conversation}/cancel"
            status, _, _ = await self.http.with_key(device).send_request("POST", path, {})
            return status

        assert self._run(cancel_run()) in (200, 409)

    @invariant()
    def each_call_has_one_result_and_it_is_the_one_that_was_taken(self) -> None:
        if not self.conversation:
            return
        entries = self._run(self._read_entries())
        results = [entry.event.result for entry in entries if isinstance(entry.event, CallEnded)]
        results_by_id: dict[str, Result] = {
            encode_call_id(self.conversation, result.call_id): result for result in results
        }
        assert len(results_by_id) == len(results), "a call ended twice"
        for id, word in self.accepted_words.items():
            assert word in results_by_id[id].content, (id, results_by_id[id])
        others = [result for id, result in results_by_id.items() if id not in self.accepted_words]
        assert {other.outcome for other in others} <= {"cancelled"}, others

    async def _read_entries(self) -> Sequence[Entry]:
        return await self.yard.service.conversations.read_entries(self.conversation)


TestDevices = Devices.TestCase
TestDevices.settings = settings(make_settings(30), stateful_step_count=25)
