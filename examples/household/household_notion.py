"""A household in Notion databases, through the `notion-client` package, which is loaded when it is first needed.

It knows the columns of the databases (README.md lists them) and nothing about tools.
"""

import importlib
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import msgspec
from household_entries import Entry, Expense, Kind

from toolyard import ToolError

if TYPE_CHECKING:
    from notion_client import Client

Base = Literal["grocery", "task", "event", "expense"]

PUBLIC_URL = "https://api.notion.com"
TIMEOUT_S = 10
MOST_PAGES = 100
TITLES: dict[Base, str] = {"grocery": "Item", "task": "Task", "event": "Event", "expense": "Expense"}
TIMES: dict[Base, str] = {"task": "Due", "event": "When"}
VARIABLES: dict[Base, str] = {
    "grocery": "NOTION_GROCERIES_DATABASE",
    "task": "NOTION_TASKS_DATABASE",
    "event": "NOTION_EVENTS_DATABASE",
    "expense": "NOTION_EXPENSES_DATABASE",
}
ERROR_TYPES = {
    "object_not_found": "not_found",
    "validation_error": "validation_error",
    "unauthorized": "permission_denied",
    "restricted_resource": "permission_denied",
}
NEWEST_FIRST = [{"timestamp": "created_time", "direction": "descending"}]

T = TypeVar("T")


class _Text(msgspec.Struct):
    plain_text: str


class _Option(msgspec.Struct):
    name: str


class _Dates(msgspec.Struct):
    start: str
    end: str | None = None


class _Cell(msgspec.Struct):
    """The value of one column of a page; only the one that its type names is there."""

    title: list[_Text] = []
    rich_text: list[_Text] = []
    number: float | None = None
    select: _Option | None = None
    date: _Dates | None = None


class _Page(msgspec.Struct):
    id: str
    properties: dict[str, _Cell]


class _Pages(msgspec.Struct):
    results: list[_Page]
    has_more: bool
    next_cursor: str | None


class _Source(msgspec.Struct):
    id: str


class _Database(msgspec.Struct):
    data_sources: list[_Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotionHousehold:
    token: str = field(repr=False)
    databases: Mapping[Base, str]
    base_url: str = PUBLIC_URL

    def add(self, entry: Entry) -> Entry:
        with self._client() as notion:
            parent = {"type": "data_source_id", "data_source_id": self._source(notion, entry.kind)}
            page = _read(notion.pages.create(parent=parent, properties=to_properties(entry)), _Page)
        return replace(entry, id=page.id)

    def entries(self, kind: Kind) -> Sequence[Entry]:
        with self._client() as notion:
            return [from_page(page, kind) for page in self._pages(notion, kind, sorts=NEWEST_FIRST)]

    def set_status(self, entry: Entry, status: str) -> Entry:
        with self._client() as notion:
            notion.pages.update(entry.id, properties={"Status": {"select": {"name": status}}})
        return replace(entry, status=status)

    def expenses(self, month: str) -> Sequence[Expense]:
        first = date.fromisoformat(f"{month}-01")
        after = (first + timedelta(days=31)).replace(day=1)
        within = [
            {"property": "Date", "date": {"on_or_after": first.isoformat()}},
            {"property": "Date", "date": {"before": after.isoformat()}},
        ]
        with self._client() as notion:
            pages = list(self._pages(notion, "expense", filter={"and": within}))
        return [_expense(page) for page in pages]

    @contextmanager
    def _client(self) -> "Generator[Client]":
        """A client for one operation; what Notion refuses becomes a ToolError."""
        try:
            package, httpx = importlib.import_module("notion_client"), importlib.import_module("httpx")
        except ModuleNotFoundError:
            said = "NOTION_TOKEN is set, but notion-client is not installed: pip install notion-client"
            raise ToolError(said, "unavailable") from None
        retry = package.client.RetryOptions(initial_retry_delay_ms=200, max_retry_delay_ms=5_000)
        options = package.client.ClientOptions(
            auth=self.token,
            base_url=self.base_url,
            timeout_ms=TIMEOUT_S * 1000,
            retry=retry,
            logger=logging.getLogger("household.notion"),
        )
        with closing(cast("Client", package.Client(options))) as client:
            try:
                yield client
            except package.errors.RequestTimeoutError:
                raise ToolError(f"Notion did not answer within {TIMEOUT_S} s", "timeout") from None
            except package.errors.HTTPResponseError as error:
                code = error.code.value if isinstance(error.code, Enum) else error.code
                raise _refusal(str(error), code, error.status) from None
            except httpx.HTTPError as error:
                raise ToolError(f"Notion cannot be reached: {error}", "unavailable") from None

    def _source(self, notion: "Client", base: Base) -> str:
        """A database is a container; its rows are in its first data source."""
        database = self.databases.get(base)
        if not database:
            raise ToolError(f"no Notion database is set for this: set {VARIABLES[base]}", "unavailable")
        sources = _read(notion.databases.retrieve(database), _Database).data_sources
        if not sources:
            raise ToolError(f"the Notion database of {VARIABLES[base]} has no data source", "not_found")
        return sources[0].id

    def _pages(self, notion: "Client", base: Base, **query: object) -> Iterator[_Page]:
        source = self._source(notion, base)
        for _ in range(MOST_PAGES):
            answer = _read(notion.data_sources.query(source, page_size=100, **query), _Pages)
            yield from answer.results
            if not answer.has_more or not answer.next_cursor:
                return
            query["start_cursor"] = answer.next_cursor
        raise ToolError(f"the Notion database of {VARIABLES[base]} is too long to read", "too_large")


def to_properties(entry: Entry) -> dict[str, object]:
    """An entry as the columns of its database."""
    cells: dict[str, object] = {TITLES[entry.kind]: {"title": [{"text": {"content": entry.name}}]}}
    if entry.kind == "grocery":
        cells["Qty"] = {"number": entry.qty}
    if entry.status:
        cells["Status"] = {"select": {"name": entry.status}}
    if entry.starts:
        cells[TIMES[entry.kind]] = {"date": {"start": entry.starts, "end": entry.ends or None}}
    if entry.place:
        cells["Location"] = {"rich_text": [{"text": {"content": entry.place}}]}
    return cells


def from_page(page: _Page, kind: Kind) -> Entry:
    """A page of a database as an entry; a column that is missing or empty is empty."""
    empty = _Cell()
    cells = page.properties
    status = cells.get("Status", empty).select
    dates = cells.get(TIMES.get(kind, ""), empty).date
    return Entry(
        kind=kind,
        id=page.id,
        name=_plain(cells.get(TITLES[kind], empty).title),
        status=status.name if status else "",
        qty=int(cells.get("Qty", empty).number or 1),
        starts=dates.start if dates else "",
        ends=(dates.end or "") if dates else "",
        place=_plain(cells.get("Location", empty).rich_text),
    )


def _expense(page: _Page) -> Expense:
    empty = _Cell()
    category = page.properties.get("Category", empty).select
    amount = page.properties.get("Amount", empty).number or 0
    return Expense(category=category.name if category else "Other", cents=round(amount * 100))


def _plain(texts: Sequence[_Text]) -> str:
    return "".join(text.plain_text for text in texts)


def _read(answer: object, shape: type[T]) -> T:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise ToolError(f"Notion's answer cannot be read: {error}", "unavailable") from None


def _refusal(message: str, code: str, status: int) -> ToolError:
    error_type = ERROR_TYPES.get(code, "unavailable" if status >= 429 else "execution_error")
    return ToolError(f"Notion refused: {message}", error_type, {"code": code, "status": status})
