"""A Notion API on a real socket that keeps pages in memory and refuses what Notion refuses.

It answers the endpoints that a household needs, in version 2025-09-03: a missing or wrong token, version or content
type, an unknown key, an unknown column, a value that does not fit its column, an option that a status column does not
have and a foreign parent are errors in Notion's own shape. It hands out two pages at a time, so that a reader who does
not follow the cursor is found out. A time without a zone is UTC, and times are shown with milliseconds and zone.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from tcp_servers import serve_web_app

VERSION = "2025-09-03"
TOKEN = "ntn_secret"
AT_ONCE = 2

Columns = dict[str, str]
Answer = Callable[[str, bytes], dict[str, object]]
Handler = Callable[[web.Request], Awaitable[web.Response]]
SCHEMAS: dict[str, Columns] = {
    "groceries": {"Item": "title", "Qty": "number", "Unit": "rich_text", "Status": "select"},
    "tasks": {"Task": "title", "Status": "select", "Due": "date"},
    "events": {"Event": "title", "When": "date", "Location": "rich_text"},
    "expenses": {"Expense": "title", "Amount": "number", "Category": "select", "Date": "date"},
}
STATUS_GROUPS = {"To-do": ["Not started"], "In progress": ["In progress"], "Complete": ["Done"]}
"""What Notion gives a new status column. The API cannot add an option to it, as it does to a select column."""


class _NotionStruct(Struct, forbid_unknown_fields=True):
    pass


class NotionText(_NotionStruct):
    content: Annotated[str, Meta(max_length=2000)]


class RichText(_NotionStruct):
    text: NotionText
    type: Literal["text"] = "text"


class Option(_NotionStruct):
    name: Annotated[str, Meta(min_length=1, max_length=100)]


class Dates(_NotionStruct):
    start: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})?)?$")]
    end: str | None = None


class TitleCell(_NotionStruct):
    title: list[RichText]


class TextCell(_NotionStruct):
    rich_text: list[RichText]


class NumberCell(_NotionStruct):
    number: float | None


class SelectCell(_NotionStruct):
    select: Option | None


class StatusCell(_NotionStruct):
    status: Option | None


class DateCell(_NotionStruct):
    date: Dates | None


Cell = TitleCell | TextCell | NumberCell | SelectCell | StatusCell | DateCell
CELLS: dict[str, type[Cell]] = {
    "title": TitleCell,
    "rich_text": TextCell,
    "number": NumberCell,
    "select": SelectCell,
    "status": StatusCell,
    "date": DateCell,
}


class Parent(_NotionStruct):
    data_source_id: str
    type: Literal["data_source_id"]


class CreateBody(_NotionStruct):
    parent: Parent
    properties: dict[str, msgspec.Raw]


class UpdateBody(_NotionStruct):
    properties: dict[str, msgspec.Raw]


class Bounds(_NotionStruct):
    on_or_after: str = ""
    before: str = "9999"


class DateFilter(_NotionStruct):
    property: str
    date: Bounds


class And(_NotionStruct, rename={"both": "and"}):
    both: Annotated[list[DateFilter], Meta(min_length=1, max_length=100)]


class Sort(_NotionStruct):
    timestamp: Literal["created_time"]
    direction: Literal["ascending", "descending"]


class Query(_NotionStruct):
    page_size: Annotated[int, Meta(ge=1, le=100)] = 100
    start_cursor: str | None = None
    filter: And | None = None
    sorts: list[Sort] = []


class NotionError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class NotionPage:
    id: str
    base: str
    cells: dict[str, Cell]

    def to_json(self, columns: Columns) -> dict[str, object]:
        """As Notion shows it: every column of its schema, with its type."""
        return {
            "object": "page",
            "id": self.id,
            "parent": {"type": "data_source_id", "data_source_id": f"source-of-{self.base}"},
            "properties": {name: self._cell(name, kind) for name, kind in columns.items()},
        }

    def _cell(self, name: str, kind: str) -> dict[str, object]:
        match self.cells.get(name):
            case TitleCell(texts) | TextCell(texts):
                value: object = [{"type": "text", "plain_text": text.text.content} for text in texts]
            case None:
                value = [] if kind in ("title", "rich_text") else None
            case DateCell(Dates(start, end)):
                value = {"start": _to_zoned(start), "end": _to_zoned(end) if end else None, "time_zone": None}
            case cell:
                value = msgspec.to_builtins(cell)[kind]
        return {"id": name[:2], "type": kind, kind: value}


@dataclass
class StrictNotion:
    """Databases by the names of `schemas`; `failures` are answered first, one each."""

    schemas: dict[str, Columns] = field(default_factory=lambda: dict(SCHEMAS))
    status_groups: dict[str, list[str]] = field(default_factory=lambda: dict(STATUS_GROUPS))
    pages: list[NotionPage] = field(default_factory=list[NotionPage])
    failures: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    refusals: list[str] = field(default_factory=list[str])
    requests: list[str] = field(default_factory=list[str])
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str, None]:
        """Gives the base URL."""
        app = web.Application()
        app.router.add_get("/v1/users/me", self._handler(self._me))
        app.router.add_get("/v1/databases/{id}", self._handler(self._database))
        app.router.add_get("/v1/data_sources/{id}", self._handler(self._source))
        app.router.add_post("/v1/data_sources/{id}/query", self._handler(self._query))
        app.router.add_post("/v1/pages", self._handler(self._create))
        app.router.add_patch("/v1/pages/{id}", self._handler(self._update))
        async with serve_web_app(app) as url:
            yield url

    def put(self, base: str, **cells: object) -> NotionPage:
        """A page as if it had been there before."""
        page = NotionPage(f"page-{next(self._numbers)}", base, self._cells(base, _raw(cells)))
        self.pages.append(page)
        return page

    def _handler(self, answer: Answer) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            body = await request.read()
            self.requests.append(f"{request.method} {request.path}")
            try:
                self._check(request, body)
                return web.json_response(answer(request.match_info.get("id", ""), body))
            except NotionError as refused:
                code, message, status = refused.code, refused.message, refused.status
            except msgspec.DecodeError as error:
                code, message, status = "validation_error", f"body failed validation: {error}", 400
            self.refusals.append(message)
            error_body = {"object": "error", "status": status, "code": code, "message": message, "request_id": "r-1"}
            return web.json_response(error_body, status=status, headers={"Retry-After": "0"} if status == 429 else {})

        return handle

    def _check(self, request: web.Request, body: bytes) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise NotionError(401, "unauthorized", "API token is invalid.")
        if request.headers.get("Notion-Version") != VERSION:
            raise NotionError(400, "missing_version", f"Notion-Version header should be {VERSION}")
        if body and request.content_type != "application/json":
            raise NotionError(400, "invalid_json", "Error parsing JSON body.")
        if request.method == "GET" and body:
            raise NotionError(400, "invalid_request", "a GET has no body")
        if self.failures:
            status, code = self.failures.pop(0)
            raise NotionError(status, code, f"as the test said: {code}")

    def _me(self, _: str, body: bytes) -> dict[str, object]:
        return {"object": "user", "id": "bot-1", "type": "bot", "name": "Household", "bot": {}}

    def _source(self, source: str, body: bytes) -> dict[str, object]:
        columns = self.schemas[self._base(source)]
        properties = {
            name: {"id": name[:2], "name": name, "type": kind, kind: self._settings(kind)}
            for name, kind in columns.items()
        }
        return {"object": "data_source", "id": source, "properties": properties}

    def _settings(self, kind: str) -> dict[str, object]:
        if kind != "status":
            return {}
        names = [name for group in self.status_groups.values() for name in group]
        groups = [
            {"id": f"group-{title}", "name": title, "option_ids": [f"option-{name}" for name in group]}
            for title, group in self.status_groups.items()
        ]
        return {"options": [{"id": f"option-{name}", "name": name} for name in names], "groups": groups}

    def _database(self, database: str, body: bytes) -> dict[str, object]:
        base = database.removeprefix("database-of-")
        if base not in self.schemas:
            raise NotionError(404, "object_not_found", f"Could not find database with ID: {database}.")
        sources = [{"id": f"source-of-{base}", "name": base}]
        return {"object": "database", "id": database, "title": [], "data_sources": sources}

    def _query(self, source: str, body: bytes) -> dict[str, object]:
        query = msgspec.json.decode(body, type=Query)
        base = self._base(source)
        matching_pages = [page for page in self.pages if page.base == base and self._matches(page, query.filter)]
        if query.sorts and query.sorts[0].direction == "descending":
            matching_pages.reverse()
        start = int(query.start_cursor or 0)
        end = start + min(query.page_size, AT_ONCE)
        more = end < len(matching_pages)
        return {
            "object": "list",
            "type": "page_or_data_source",
            "results": [page.to_json(self.schemas[base]) for page in matching_pages[start:end]],
            "has_more": more,
            "next_cursor": str(end) if more else None,
        }

    def _create(self, _: str, body: bytes) -> dict[str, object]:
        create_body = msgspec.json.decode(body, type=CreateBody)
        base = self._base(create_body.parent.data_source_id)
        page = NotionPage(f"page-{next(self._numbers)}", base, self._cells(base, create_body.properties))
        self.pages.append(page)
        return page.to_json(self.schemas[base])

    def _update(self, page_id: str, body: bytes) -> dict[str, object]:
        page = next((page for page in self.pages if page.id == page_id), None)
        if page is None:
            raise NotionError(404, "object_not_found", f"Could not find page with ID: {page_id}.")
        page.cells |= self._cells(page.base, msgspec.json.decode(body, type=UpdateBody).properties)
        return page.to_json(self.schemas[page.base])

    def _base(self, source: str) -> str:
        base = source.removeprefix("source-of-")
        if base not in self.schemas or base == source:
            raise NotionError(404, "object_not_found", f"Could not find data_source with ID: {source}.")
        return base

    def _cells(self, base: str, properties: dict[str, msgspec.Raw]) -> dict[str, Cell]:
        columns = self.schemas[base]
        for name in properties:
            if name not in columns:
                raise NotionError(400, "validation_error", f"{name} is not a property that exists.")
        cells = {name: msgspec.json.decode(cell, type=CELLS[columns[name]]) for name, cell in properties.items()}
        options = [name for group in self.status_groups.values() for name in group]
        for cell in cells.values():
            if isinstance(cell, StatusCell) and cell.status and cell.status.name not in options:
                raise NotionError(400, "validation_error", f'Status option "{cell.status.name}" does not exist.')
        return cells

    def _matches(self, page: NotionPage, date_filter: And | None) -> bool:
        for bounds in date_filter.both if date_filter else ():
            if self.schemas[page.base].get(bounds.property) != "date":
                raise NotionError(400, "validation_error", f"{bounds.property} is not a date property")
            cell = page.cells.get(bounds.property)
            start = cell.date.start if isinstance(cell, DateCell) and cell.date else ""
            if not bounds.date.on_or_after <= start < bounds.date.before:
                return False
        return True


def _raw(cells: dict[str, object]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(msgspec.json.encode(cell)) for name, cell in cells.items()}


def _to_zoned(moment: str) -> str:
    if "T" not in moment:
        return moment
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).isoformat(timespec="milliseconds")
