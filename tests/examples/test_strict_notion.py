"""The strict Notion of these tests refuses what it is there to refuse."""

import asyncio

import aiohttp
import pytest

from examples.strict_notion import TOKEN, VERSION, StrictNotion

HEADERS = {"Authorization": f"Bearer {TOKEN}", "Notion-Version": VERSION}
PARENT = {"type": "data_source_id", "data_source_id": "source-of-groceries"}
TITLE = {"Item": {"title": [{"text": {"content": "milk"}}]}}


def answer_to(path: str, body: object, **headers: str) -> tuple[int, str]:
    async def test() -> tuple[int, str]:
        all_headers = HEADERS | {name.replace("_", "-"): text for name, text in headers.items()}
        async with StrictNotion().serving() as url, aiohttp.ClientSession(headers=all_headers) as session:
            answer = await session.post(f"{url}/v1/{path}", json=body)
            reply = await answer.json()
            return answer.status, reply.get("code", reply["object"])

    return asyncio.run(test())


@pytest.mark.parametrize(
    "body",
    [
        {"properties": TITLE},
        {"parent": {"database_id": "database-of-groceries"}, "properties": TITLE},
        {"parent": PARENT, "properties": TITLE, "colour": "red"},
        {"parent": PARENT, "properties": {"Qty": {"number": "2"}}},
        {"parent": PARENT, "properties": {"Status": {"status": {"name": "Needed"}}}},
        {"parent": PARENT, "properties": {"Colour": {"number": 2}}},
    ],
)
def test_a_page_that_does_not_fit_its_data_source_is_refused(body: object) -> None:
    assert answer_to("pages", body) == (400, "validation_error")


def test_headers_and_queries_are_checked_and_what_is_right_is_taken() -> None:
    right = {"parent": PARENT, "properties": TITLE}
    assert answer_to("pages", right) == (200, "page")
    assert answer_to("pages", right, Authorization="Bearer other") == (401, "unauthorized")
    assert answer_to("pages", right, Notion_Version="2022-06-28") == (400, "missing_version")
    assert answer_to("pages", right, Content_Type="text/plain") == (400, "invalid_json")
    assert answer_to("data_sources/source-of-tasks/query", {"page_size": 101}) == (400, "validation_error")
    assert answer_to("data_sources/tasks/query", {}) == (404, "object_not_found")
