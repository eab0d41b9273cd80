"""Three replicas as processes on one PostgreSQL: streams, approvals, tools that kill, and a database that is down."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import asyncpg
import msgspec
import pytest
import pytest_asyncio

from crash.cluster import Cluster, start_cluster
from crash.cluster_child import STORY
from support import wait_until
from toolyard.core.store import MAX_DEATHS, SUSPECT_DEATHS

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = Any
WAIT_S = 60.0
MAX_LOG_LINES = 40
"""What a replica may log about an outage of some seconds, the requests that it refuses not counted."""
GROWING_TABLES = ("batches", "conversations", "records")
FILL_DISK = (
    """CREATE FUNCTION fill_disk() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END$$""",
    *(f"CREATE TRIGGER full_disk BEFORE INSERT ON {t} EXECUTE FUNCTION fill_disk()" for t in GROWING_TABLES),
)
FREE_DISK = (*(f"DROP TRIGGER full_disk ON {t}" for t in GROWING_TABLES), "DROP FUNCTION fill_disk()")


async def execute_singly(connection: asyncpg.Connection, statements: Sequence[str]) -> None:
    """Execute each statement in a transaction of its own: locks of several tables could deadlock with the replicas'."""
    for statement in statements:
        await connection.execute(statement)


class Client:
    """Sends requests to the replicas of a cluster by their number."""

    def __init__(self, cluster: Cluster, session: aiohttp.ClientSession) -> None:
        self.cluster = cluster
        self._session = session

    async def post(self, replica: int, path: str, body: Json = None, **headers: str) -> tuple[int, Json, Json]:
        url = self.cluster.urls[replica] + path
        async with self._session.post(url, json=body or {}, headers=headers) as response:
            return response.status, await response.json(), response.headers

    async def get(self, replica: int, path: str) -> tuple[int, Json, Json]:
        async with self._session.get(self.cluster.urls[replica] + path) as response:
            return response.status, await response.json(), response.headers

    async def open_conversation(self) -> str:
        status, created, _ = await self.post(0, "/conversations", {"title": "t"})
        assert status == 201, created
        return f"/conversations/{created['conversation']['id']}"

    async def chat(self, path: str, content: str, key: str = "") -> Json:
        """Send a message until some replica answers it, and return the answer."""
        key = key or f"{path}-{random.random()}"
        async with asyncio.timeout(WAIT_S):
            while True:
                with suppress(aiohttp.ClientError):
                    replica = random.randrange(len(self.cluster.urls))
                    body = {"content": content}
                    status, answer, _ = await self.post(replica, f"{path}/chat", body, **{"idempotency-key": key})
                    if status in (200, 202, 502):
                        return answer
                    assert status == 503, answer
                await asyncio.sleep(0.1)

    async def respond(self, replica: int, prompt: str) -> str:
        """Return the events of a request whose conversation is not kept."""
        body, url = {"prompt": prompt, "keep": False}, self.cluster.urls[replica] + "/ai/respond"
        async with self._session.post(url, json=body) as response:
            return await response.text()

    async def stream(self, replica: int, path: str, last_id: str) -> AsyncGenerator[tuple[str, str]]:
        """Yield the id and the data of each event after `last_id`."""
        url, headers = f"{self.cluster.urls[replica]}{path}/events?format=entries", {"last-event-id": last_id}
        async with self._session.get(url, headers=headers) as response:
            event_id = ""
            async for line in response.content:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "id":
                    event_id = value
                elif name == "data":
                    yield event_id, value


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    async with (
        start_cluster(tmp_path_factory.mktemp("cluster"), "deadly", has_proxies=False) as cluster,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
    ):
        yield Client(cluster, session)


@asynccontextmanager
async def supervise(cluster: Cluster) -> AsyncGenerator[list[str]]:
    """Start replicas again that end, as a supervisor does. Yield the list of their ends."""
    ends: list[str] = []
    stopping = asyncio.Event()

    async def watch() -> None:
        while not stopping.is_set():
            await cluster.revive(ends.append)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield ends
    finally:
        stopping.set()  # not cancelled: a replica may be on its way up
        await watching
        await cluster.revive(ends.append)


async def read_to_end(client: Client, path: str, *, per_connection: int) -> list[Json]:
    """Read a log to the end of its run, from another replica after so many events each time."""
    events: list[Json] = []
    last_id, replica = "0", 0
    async with asyncio.timeout(WAIT_S):
        while True:
            replica = (replica + 1) % len(client.cluster.urls)
            stream, count = client.stream(replica, path, last_id), 0
            async for event_id, data in stream:
                last_id, count = event_id, count + 1
                events.append(parse(data))
                if get_type(events[-1]) == "run.ended":
                    await stream.aclose()
                    return events
                if count == per_connection:
                    break
            await stream.aclose()


def parse(data: str) -> Json:
    return msgspec.json.decode(data)


def get_type(item: Json) -> str:
    return item["event"]["type"] if "seq" in item else item["type"]


def check_complete(events: list[Json]) -> None:
    """Check that every entry came once, in order, and that the text has no gap and no repetition."""
    seqs = [item["seq"] for item in events if "seq" in item]
    assert seqs == list(range(1, len(seqs) + 1))
    texts: dict[int, bytes] = {}
    for item in events:
        if get_type(item) == "text.appended":
            assert item.get("offset", 0) == len(texts.get(item["turn"], b"")), item
            texts[item["turn"]] = texts.get(item["turn"], b"") + item["text"].encode()
    if texts:
        assert max(texts.values(), key=len).decode() in "".join(STORY)


@pytest.mark.parametrize("per_connection", [1, 2, 3, 7])
async def test_a_stream_that_goes_on_at_another_replica_after_each_event_misses_none(
    client: Client, per_connection: int
) -> None:
    path = await client.open_conversation()
    chat = asyncio.create_task(client.chat(path, f"tell {per_connection}"))
    events = await read_to_end(client, path, per_connection=per_connection)
    assert (await chat)["status"] == "done"
    check_complete(events)
    assert any(get_type(item) == "text.appended" for item in events)


async def test_a_log_that_is_cut_at_every_event_is_whole_wherever_it_goes_on(client: Client) -> None:
    path = await client.open_conversation()
    assert (await client.chat(path, "tell 100"))["status"] == "done"
    whole = await read_from(client, 0, path, "0")
    check_complete([item for _, item in whole])
    for index, (event_id, _) in enumerate(whole[:-1], 1):
        later = await read_from(client, index % 3, path, event_id)
        assert [summarize(item) for _, item in later] == [summarize(item) for _, item in whole[index:]]


def summarize(item: Json) -> tuple[str, int, str]:
    """Return what must be the same in every process: the order of roles, which are a set, is not."""
    return get_type(item), item.get("seq", 0), item.get("text", "")


async def read_from(client: Client, replica: int, path: str, last_id: str) -> list[tuple[str, Json]]:
    """Return the events after `last_id` up to the end of the run, each with its id."""
    events: list[tuple[str, Json]] = []
    stream = client.stream(replica, path, last_id)
    async for event_id, data in stream:
        events.append((event_id, parse(data)))
        if get_type(events[-1][1]) == "run.ended":
            break
    await stream.aclose()
    return events


async def test_of_approvals_raced_at_all_replicas_one_is_taken(client: Client) -> None:
    for number in range(5):
        path = await client.open_conversation()
        (waiting,) = (await client.chat(path, f"order {500 + number}"))["waiting"]
        target = f"{path}/calls/{waiting['call_id']}/approve"
        answers = await asyncio.gather(*(client.post(replica, target) for replica in (0, 1, 2) * 3))
        assert sorted(status for status, _, _ in answers) == [200, *[409] * 8]
        await read_to_end(client, path, per_connection=10_000)
        client.cluster.ledger.update()
        paid = [line for line in client.cluster.ledger.lines if line.call == waiting["call_id"]]
        assert [line.step for line in paid] == ["begin", "pay", "end"]


async def check_deadly_tool(client: Client, amount: int) -> None:
    """Let a tool kill its processes, and see that its own run ends and no other one suffers."""
    path, other = await client.open_conversation(), await client.open_conversation()
    key = f"crash-{amount}"
    async with supervise(client.cluster) as ends:
        chat = asyncio.create_task(client.chat(path, "crash", key))
        done = await client.chat(other, f"tell {amount}")
        assert done.get("status") == "done", done
        answer = await chat
        while answer.get("status") == "running":
            answer = await client.chat(path, "crash", key)
    assert len(ends) == 3, ends
    events = await read_to_end(client, path, per_connection=10_000)
    (ended,) = [item["event"]["result"] for item in events if get_type(item) == "call.ended"]
    assert ended["outcome"] == "unknown"
    for replica in range(3):
        await wait_until_ready(client, replica)
    assert (await client.chat(path, "still there?"))["assistant_message"]["content"] == "yes"


async def test_a_tool_that_kills_its_process_ends_its_own_run_and_no_other(client: Client) -> None:
    await check_deadly_tool(client, 700)


async def test_runs_and_take_overs_go_on_while_an_old_snapshot_of_the_database_is_held_open(client: Client) -> None:
    """Row versions that the snapshot still sees cannot be removed, and its own transaction sees none of the new."""
    connection = await asyncpg.connect(client.cluster.database_url)
    count = "SELECT count(*) FROM batches"
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            before = await connection.fetchval(count)
            await check_deadly_tool(client, 701)
            path = await client.open_conversation()
            (waiting,) = (await client.chat(path, "order 702"))["waiting"]
            assert (await client.post(1, f"{path}/calls/{waiting['call_id']}/approve"))[0] == 200
            await read_to_end(client, path, per_connection=10_000)
            for replica in range(3):
                assert '"ending":"done"' in await client.respond(replica, "still there?")
            assert await connection.fetchval(count) == before, "the snapshot is still open"
        assert await connection.fetchval(count) > before
    finally:
        await connection.close()


async def send_and_leave(client: Client, path: str, content: str) -> None:
    """Send a message whose answer nobody waits for: its process may die."""
    with suppress(aiohttp.ClientError):
        await client.post(0, f"{path}/chat", {"content": content})


async def wait_for_deaths(database: asyncpg.Connection, path: str, *numbers: int) -> None:
    query, id = "SELECT deaths FROM conversations WHERE id = $1", path.rpartition("/")[2]
    async with asyncio.timeout(WAIT_S):
        while await database.fetchval(query, id) not in numbers:  # noqa: ASYNC110 - there is nothing to wait on
            await asyncio.sleep(0.02)


async def let_die(client: Client, path: str, content: str) -> None:
    """Let processes die with a conversation until it is taken up for the last time.

    The first deaths show that it goes by itself. The next ones, with growing delays, would take a minute.
    """
    database = await asyncpg.connect(client.cluster.database_url)
    try:
        await send_and_leave(client, path, content)
        await wait_for_deaths(database, path, SUSPECT_DEATHS)
        id = path.rpartition("/")[2]
        query = "UPDATE conversations SET deaths = $2, taken_at = NULL WHERE id = $1"
        await database.execute(query, id, MAX_DEATHS - 1)
        # A run that is given up ends at once, and the count begins anew.
        await wait_for_deaths(database, path, MAX_DEATHS, 0)
        await database.execute("UPDATE conversations SET taken_at = NULL WHERE id = $1", id)  # as after a long time
    finally:
        await database.close()


async def expect_ends(client: Client, ends: list[str], number: int) -> None:
    """Wait until so many processes have ended, and until all replicas are back."""
    await wait_until(lambda: len(ends) == number)
    for replica in range(3):
        async with client.cluster.replicas[replica].lock:
            await wait_until_ready(client, replica)


async def test_a_run_that_kills_every_process_which_takes_it_up_ends_as_failed(client: Client) -> None:
    path, other = await client.open_conversation(), await client.open_conversation()
    async with supervise(client.cluster) as ends:
        dying = asyncio.create_task(let_die(client, path, "deadly"))
        assert (await client.chat(other, "tell 710")).get("status") == "done"
        await dying
        await expect_ends(client, ends, 1 + SUSPECT_DEATHS)
        (ended,) = [item["event"] for item in await read_to_end(client, path, per_connection=10_000)][-1:]
        assert (ended["ending"], "8 times" in ended["detail"]) == ("failed", True)
        assert (await client.chat(path, "still there?"))["assistant_message"]["content"] == "yes"
    assert len(ends) == 1 + SUSPECT_DEATHS, "no process died with it once it was given up"


async def test_a_log_that_kills_every_process_which_takes_it_up_is_out_of_reach_and_nothing_else_is(
    client: Client,
) -> None:
    path, other = await client.open_conversation(), await client.open_conversation()
    async with supervise(client.cluster) as ends:
        dying = asyncio.create_task(let_die(client, path, "poison"))
        assert (await client.chat(other, "tell 720")).get("status") == "done"
        await dying
        await expect_ends(client, ends, 2 + SUSPECT_DEATHS)
        for replica in range(3):
            status, answer, headers = await client.post(replica, f"{path}/chat", {"content": "still there?"})
            assert (status, "every process that took up this conversation died" in answer["error"]) == (503, True)
            assert int(headers["retry-after"]) >= 1
            assert (await client.chat(other, "still there?"))["assistant_message"]["content"] == "yes"
    assert len(ends) == 2 + SUSPECT_DEATHS, "no process died with it afterwards"


async def wait_until_ready(client: Client, replica: int, status: int = 200) -> None:
    async with asyncio.timeout(WAIT_S):
        while (await client.get(replica, "/readyz"))[0] != status:
            pass


async def check_outage(client: Client, first_amount: int) -> tuple[list[asyncio.Task[Json]], list[int]]:
    """Start runs, and return them with the length of each replica's log so far."""
    paths = [await client.open_conversation() for _ in range(3)]
    runs = [
        asyncio.create_task(client.chat(path, f"tell {first_amount + number}", f"{path}-tell"))
        for number, path in enumerate(paths)
    ]
    for path in paths:
        async for _ in client.stream(0, path, "0"):
            break
    return runs, [len(replica.read_log().splitlines()) for replica in client.cluster.replicas]


def check_refusal(route: str, status: int, error: Json, headers: Json) -> None:
    assert (status, route == "/readyz" or error["error_type"] == "unavailable") == (503, True), (route, error)
    assert int(headers["retry-after"]) >= 1, route


async def expect_refusals(client: Client) -> None:
    """Wait until each replica refuses requests as it should while the database is down."""
    for replica in range(3):
        await wait_until_ready(client, replica, status=503)
        check_refusal("/conversations", *await client.post(replica, "/conversations", {"title": "t"}))
        assert (await client.get(replica, "/healthz"))[0] == 200


async def expect_refusals_everywhere(client: Client, path: str) -> None:
    """Check that every route which needs the store refuses its requests at once, and says when to come again."""
    call = f"{path}/calls/call_1"
    of_conversation = [f"{path}/{name}" for name in ("messages", "events", "tools", "runs/run_1")]
    for route in ["/conversations", path, *of_conversation, "/traces", "/overview", "/live", "/readyz"]:
        check_refusal(route, *await client.get(1, route))
    posts: dict[str, Json] = {
        "/ai/respond": {"prompt": "go"},
        "/chat/v1/conversation": {"messages": [{"role": "user", "content": "go"}]},
        f"{path}/chat": {"content": "go"},
        f"{path}/messages": {"role": "user", "content": "go"},
        f"{path}/cancel": {},
        f"{call}/approve": {},
        f"{call}/result": {"result": 1},
    }
    for route, body in posts.items():
        check_refusal(route, *await client.post(1, route, body))


async def expect_recovery(client: Client, runs: list[asyncio.Task[Json]], log_lengths: list[int]) -> None:
    pids = [replica.pid for replica in client.cluster.replicas]
    for run in runs:
        answer = await run
        assert answer["status"] == "done", answer
    for replica in range(3):
        await wait_until_ready(client, replica)
    assert pids == [replica.pid for replica in client.cluster.replicas]
    assert not any(replica.has_ended for replica in client.cluster.replicas)
    for replica, length in zip(client.cluster.replicas, log_lengths, strict=True):
        added = replica.read_log().splitlines()[length:]
        others = [line for line in added if "Request finished" not in line]
        assert len(others) <= MAX_LOG_LINES, "\n".join(others)


async def test_while_the_database_is_down_requests_are_refused_and_runs_go_on_afterwards(client: Client) -> None:
    path = await client.open_conversation()
    runs, log_lengths = await check_outage(client, 800)
    await asyncio.to_thread(client.cluster.server.stop, "immediate")
    await expect_refusals(client)
    await expect_refusals_everywhere(client, path)
    await asyncio.sleep(2 * client.cluster.lease_s)  # longer than the lease of every replica
    await asyncio.to_thread(client.cluster.server.start)
    await expect_recovery(client, runs, log_lengths)


async def test_while_the_disk_of_the_database_is_full_requests_are_refused_and_runs_go_on_afterwards(
    client: Client,
) -> None:
    runs, log_lengths = await check_outage(client, 900)
    connection = await asyncpg.connect(client.cluster.database_url)
    await execute_singly(connection, FILL_DISK)
    # The first entry that meets the full disk waits for it, as it may be on the way to the log. Later ones are refused.
    waiting = [asyncio.create_task(client.post(replica, "/conversations", {"title": "t"})) for replica in range(3)]
    await expect_refusals(client)
    await execute_singly(connection, FREE_DISK)
    assert {status for status, _, _ in await asyncio.gather(*waiting)} <= {201, 503}
    await connection.close()
    await expect_recovery(client, runs, log_lengths)
