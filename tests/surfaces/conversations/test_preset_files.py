"""Files of presets: text for the model with its tokens, bounded, kept while a preset is changed and shared."""

import pytest

from surfaces.api_client import Json, build_key, build_yard, connect_api_client
from toolyard.engine.access.presets import MAX_FILE_BYTES, MAX_PRESET_FILES
from toolyard.testing import Scripted, say

HANDBOOK: Json = {"name": "C:\\team\\hand\u202ebook.md", "text": "Returns take 14 days.\n" * 10}


async def test_a_run_with_the_preset_shows_the_model_its_files_after_its_prompt() -> None:
    model = Scripted(lambda _: say("ok"))
    yard = build_yard(model, system_prompt="Be polite.")
    async with yard, connect_api_client(yard) as http:
        saved = await http.put("/presets/Shop", {"settings": {"system_prompt": "You sell."}, "files": [HANDBOOK]})
        (file,) = saved["preset"]["files"]
        assert (file["name"], file["bytes"], file["tokens"]) == ("hand book.md", 220, 60)
        assert saved["preset"]["tokens"] == 62
        assert "Returns" not in str(await http.get("/presets")), "a list does not carry the texts"
        path = await http.create_conversation("T", model="preset:Shop", system_prompt="Mine.")
        await http.post(f"{path}/chat", {"content": "hello"})
        await http.put("/presets/Shop", {"settings": {"system_prompt": "You buy."}})
        await http.post(f"{path}/chat", {"content": "hello"})
        prices: Json = {"name": "prices.csv", "text": "milk,1"}
        both = await http.put("/presets/Shop", {"settings": {}, "files": [{"name": "hand book.md"}, prices]})
        assert [file["tokens"] for file in both["preset"]["files"]] == [60, 6]
        missing = await http.put("/presets/Shop", {"settings": {}, "files": [{"name": "x"}]}, expect=404)
        assert "send its text" in missing["error"]
        await http.put("/presets/Shop", {"settings": {}, "files": []})
        await http.post(f"{path}/chat", {"content": "hello"})
    shown = f"The file hand book.md:\n{HANDBOOK['text']}"
    first, changed, without = (request.system for request in model.requests)
    assert first == f"Be polite.\n\nYou sell.\n\n{shown}\n\nMine."
    assert changed == f"Be polite.\n\nYou buy.\n\n{shown}\n\nMine."
    assert without == "Be polite.\n\nMine."


async def test_files_move_with_a_preset_of_ones_own_and_are_not_taken_from_anothers() -> None:
    yard = build_yard([], keys=[build_key("ann"), build_key("bob")])
    async with yard, connect_api_client(yard) as anybody:
        ann, bob = anybody.with_key("ann"), anybody.with_key("bob")
        await ann.put("/presets/P", {"settings": {}, "files": [HANDBOOK]})
        shared = (await ann.put("/presets/P", {"settings": {}, "shared": True}))["preset"]
        assert [file["name"] for file in shared["files"]] == ["hand book.md"]
        assert (await bob.put("/presets/P", {"settings": {}}))["preset"]["files"] == []
        back = (await ann.put("/presets/P", {"settings": {}}))["preset"]
        assert (back["shared"], len(back["files"])) == (False, 1)


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ([{"name": "a", "text": "é" * (MAX_FILE_BYTES // 2)}], 409),
        ([{"name": f"{number}", "text": "x"} for number in range(MAX_PRESET_FILES + 1)], 409),
        ([{"name": "\u202e", "text": "x"}], 422),
        ([{"name": "a", "text": "x", "url": "x"}], 422),
    ],
)
async def test_files_that_are_too_many_or_too_large_are_refused(files: list[Json], status: int) -> None:
    yard = build_yard([])
    async with yard, connect_api_client(yard) as http:
        await http.put("/presets/P", {"settings": {}, "files": files}, expect=status)
        assert (await http.get("/presets"))["presets"] == []


async def test_all_presets_together_are_bounded() -> None:
    yard = build_yard([])
    large = [{"name": "a", "text": "x" * (MAX_FILE_BYTES - 100)}]
    async with yard, connect_api_client(yard) as http:
        for number in range(31):
            await http.put(f"/presets/P{number}", {"settings": {}, "files": large})
        refused = await http.put("/presets/P31", {"settings": {}, "files": large}, expect=409)
        assert "2,000,000 bytes" in refused["error"]
        assert len((await http.get("/presets"))["presets"]) == 31
