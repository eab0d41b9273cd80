"""Export a conversation as a file, and share a snapshot of it by a read-only link within the tenant."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.api_client import ApiClient, Json, build_key, build_yard, connect_api_client
from surfaces.http_server import connect_client
from toolyard import Yard, tool
from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import AddMessage
from toolyard.core.items import FilePart, Item, ModelText, Reasoning, SystemText, TextPart, UserMessage
from toolyard.engine.access.shares import MAX_SHARES
from toolyard.testing import Turn, call, say

KEYS = [build_key("ann"), build_key("bob"), build_key("oda", "operator"), build_key("eve", "operator", tenant="other")]
ANN = Caller(user="ann", tenant="t")


@tool(read_only=True)
def stock(item: str) -> str:
    """Tell what there is."""
    return f"```\n7 of {item}"


@dataclass
class Scene:
    """A conversation of ann's in which a tool was called, and clients of several callers."""

    yard: Yard
    database: MemoryDatabase
    ann: ApiClient
    bob: ApiClient
    oda: ApiClient
    eve: ApiClient
    path: str = ""

    async def share(self, **options: object) -> str:
        answer = await self.ann.post(f"{self.path}/shares", options, expect=201)
        return answer["token"]

    async def add(self, *items: Item) -> None:
        service, id = self.yard.service, self.path.rpartition("/")[2]
        for item in items:
            await service.conversations.submit(id, AddMessage(by=ANN, items=(replace(item, at=service.clock.now()),)))


@asynccontextmanager
async def open_scene(*more: Turn) -> AsyncGenerator[Scene]:
    database = MemoryDatabase()
    script = [call("stock", item="secret milk"), say("There are seven."), *more]
    wiring = {"tools": [stock], "keys": KEYS, "opened_store": SharedMemoryStore(database)}
    async with build_yard(script, **wiring) as yard, connect_api_client(yard) as http:
        ann, bob, oda, eve = (http.with_key(name) for name in ("ann", "bob", "oda", "eve"))
        scene = Scene(yard, database, ann, bob, oda, eve)
        scene.path = await scene.ann.create_conversation("About milk")
        await scene.ann.post(f"{scene.path}/chat", {"content": "How much is left?"})
        yield scene


def read_messages(shared: Json) -> list[tuple[str, str]]:
    return [(message["role"], message["text"]) for message in shared["transcript"]["messages"]]


async def test_everybody_of_the_tenant_reads_a_link_and_nobody_else() -> None:
    async with open_scene() as scene:
        token = await scene.share()
        assert len(token) >= 22
        for reader in (scene.ann, scene.bob, scene.oda):
            shared = await reader.get(f"/shares/{token}")
            assert shared["transcript"]["title"] == "About milk" and shared["share"]["user"] == "ann"
            assert read_messages(shared) == [
                ("user", "How much is left?"), ("assistant", ""), ("assistant", "There are seven.")
            ]  # fmt: skip
        await scene.bob.get(scene.path, expect=404)
        foreign = await scene.eve.get(f"/shares/{token}", expect=404)
        unknown = await scene.bob.get(f"/shares/{'x' * 43}", expect=404)
        assert foreign["error"] == unknown["error"]
        status, _, _ = await scene.ann.with_key("").send_request("GET", f"/shares/{token}")
        assert status == 401


async def test_only_the_hash_of_a_links_token_is_stored_and_the_log_does_not_show_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_scene() as scene:
        token = await scene.share()
        (stored,) = scene.database.tokens.values()
        assert token not in str(stored)
        with caplog.at_level("INFO", "toolyard.http"):
            await scene.bob.get(f"/shares/{token}")
        assert "/shares/***" in caplog.text and token not in caplog.text


async def test_a_link_leaves_out_arguments_results_reasoning_and_prompts_unless_they_are_asked_for() -> None:
    async with open_scene() as scene:
        await scene.add(
            SystemText(id="prompt", at=0, text="hidden prompt"),
            UserMessage(id="q", at=0, parts=(TextPart(text="look"), FilePart(url="data:,secret", name="list.txt"))),
            Reasoning(id="r", at=0, text="private thoughts"),
            ModelText(id="m", at=0, text="I see."),
        )
        plain = await scene.bob.get(f"/shares/{await scene.share()}")
        text = json.dumps(plain)
        for hidden in ("secret", "7 of", "private thoughts", "hidden prompt"):
            assert hidden not in text, hidden
        (shown,) = plain["transcript"]["messages"][1]["calls"]
        assert (shown["tool"], shown["outcome"], shown["arguments"], shown["result"]) == ("stock", "ok", None, None)
        assert plain["transcript"]["messages"][3]["attachments"] == ["list.txt"]
        full = await scene.bob.get(f"/shares/{await scene.share(include_arguments=True, include_reasoning=True)}")
        (shown,) = full["transcript"]["messages"][1]["calls"]
        assert shown["arguments"] == {"item": "secret milk"} and "7 of secret milk" in shown["result"]
        assert full["transcript"]["messages"][-1]["reasoning"] == "private thoughts"
        assert "hidden prompt" not in json.dumps(full)


async def test_a_link_shows_the_branch_and_the_moment_at_which_it_was_made() -> None:
    async with open_scene(say("Bye.")) as scene:
        before = await scene.share()
        await scene.ann.post(f"{scene.path}/rewind", {"to": ""})
        await scene.ann.post(f"{scene.path}/chat", {"content": "Never mind"})
        await scene.ann.put(scene.path, {"title": "Renamed"})
        after = await scene.bob.get(f"/shares/{await scene.share()}")
        assert read_messages(after) == [("user", "Never mind"), ("assistant", "Bye.")]
        earlier = await scene.bob.get(f"/shares/{before}")
        assert earlier["transcript"]["title"] == "About milk"
        assert read_messages(earlier)[-1] == ("assistant", "There are seven.")


async def test_a_link_ends_when_it_expires_is_revoked_or_its_conversation_is_deleted() -> None:
    async with open_scene() as scene:
        expired, revoked, last = [await scene.share(expires_s=60) for _ in range(3)]
        listed = (await scene.ann.get(f"{scene.path}/shares"))["shares"]
        assert len(listed) == 3 and "token" not in listed[0]
        await scene.ann.delete(f"{scene.path}/shares/{listed[1]['id']}")
        await scene.ann.delete(f"{scene.path}/shares/{listed[1]['id']}", expect=404)
        await scene.bob.get(f"/shares/{revoked}", expect=404)
        tokens = scene.database.tokens
        key = min(tokens, key=lambda key: tokens[key].created_at)
        tokens[key] = replace(tokens[key], expires_at=scene.yard.service.clock.now())
        await scene.bob.get(f"/shares/{expired}", expect=404)
        assert len((await scene.ann.get(f"{scene.path}/shares"))["shares"]) == 1
        await scene.bob.get(f"/shares/{last}")
        await scene.ann.delete(scene.path)
        await scene.bob.get(f"/shares/{last}", expect=404)
        assert not scene.database.tokens


async def test_only_the_owner_shares_and_only_so_many_links() -> None:
    async with open_scene() as scene:
        for other in (scene.bob, scene.oda, scene.eve):
            await other.post(f"{scene.path}/shares", {}, expect=404)
            await other.get(f"{scene.path}/shares", expect=404)
        for wrong in ({"expires_s": 1}, {"expires_s": 10**9}, {"include": True}):
            await scene.ann.post(f"{scene.path}/shares", wrong, expect=422)
        for _ in range(MAX_SHARES):
            await scene.share()
        await scene.ann.post(f"{scene.path}/shares", {}, expect=409)


async def test_a_markdown_export_is_a_file_for_those_who_see_the_conversation() -> None:
    async with open_scene() as scene, connect_client(scene.yard, x_api_key="oda") as http:
        status, _, headers = await http.ask("GET", f"{scene.path}/export")
        assert status == 200 and headers["content-type"] == "text/markdown; charset=utf-8"
        id = scene.path.rpartition("/")[2]
        assert headers["content-disposition"] == f'attachment; filename="{id}.md"'
        assert headers["x-content-type-options"] == "nosniff"
        text = await http.get_text(f"{scene.path}/export")
        assert text.startswith("# About milk\n") and "How much is left?" in text and "secret milk" in text


async def test_a_json_export_has_everything_that_its_reader_may_see() -> None:
    async with open_scene(say("Bye.")) as scene:
        await scene.ann.post(f"{scene.path}/rewind", {"to": ""})
        await scene.ann.post(f"{scene.path}/chat", {"content": "Never mind"})
        for reader in (scene.ann, scene.oda):
            status, exported, headers = await reader.send_request("GET", f"{scene.path}/export?format=json")
            assert status == 200 and headers["content-disposition"].startswith("attachment")
            assert exported["format"] == "toolyard.conversation.1"
            assert exported["conversation"]["title"] == "About milk"
            assert [item["type"] for item in exported["items"]] == ["user_message", "model_text"]
            (branch,) = exported["branches"]
            kinds = [item["type"] for item in branch["items"]]
            assert kinds == ["user_message", "call", "result", "model_text"]
        await scene.bob.get(f"{scene.path}/export", expect=404)
        status, _, _ = await scene.ann.send_request("GET", f"{scene.path}/export?format=html")
        assert status in (400, 422)
