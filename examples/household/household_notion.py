"""A household in Notion databases, through the `notion-client` package, which is loaded when it is first needed.

README.md lists the columns of the databases.
"""

import importlib
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeVar, cast

import msgspec
from household_entries import STATUSES, Entry, Expense, Kind

from toolyard import ToolError

if TYPE_CHECKING:
    from notion_client import Client

Base = Literal["grocery", "task", "event", "expense"]

PUBLIC_URL = "https://api.notion.com"
TIMEOUT_S = 10
MAX_PAGES = 100
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
TEXT = ("rich_text", "select")
CHOICE = ("select", "status")
COLUMNS: dict[Base, dict[str, tuple[str, ...]]] = {
    "grocery": {"Item": ("title",), "Qty": ("number",), "Unit": TEXT, "Status": CHOICE},
    "task": {"Task": ("title",), "Status": CHOICE, "Due": ("date",)},
    "event": {"Event": ("title",), "When": ("date",), "Location": TEXT},
    "expense": {"Expense": ("title",), "Amount": ("number",), "Category": CHOICE, "Date": ("date",)},
}
"""The columns that each database needs, with the types that each may have."""
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
    """The value of one column of a page; only the field with the name of the column's type is set."""

    title: list[_Text] = []
    rich_text: list[_Text] = []
    number: float | None = None
    select: _Option | None = None
    status: _Option | None = None
    date: _Dates | None = None


class _Page(msgspec.Struct):
    id: str
    properties: dict[str, _Cell]


class _Pages(msgspec.Struct):
    results: list[_Page]
    has_more: bool
    next_cursor: str | None


class _Choice(msgspec.Struct):
    id: str
    name: str


class _Group(msgspec.Struct):
    option_ids: list[str]


class _Choices(msgspec.Struct):
    """The options of a status column. Notion sorts them into three groups: to do, in progress, complete."""

    options: list[_Choice]
    groups: list[_Group]


class _Column(msgspec.Struct):
    type: str
    status: _Choices | None = None


Columns = Mapping[str, _Column]


class _Source(msgspec.Struct):
    id: str
    properties: dict[str, _Column] = {}


class _Database(msgspec.Struct):
    data_sources: list[_Source]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotionHousehold:
    token: str = field(repr=False)
    databases: Mapping[Base, str]
    base_url: str = PUBLIC_URL

    def add(self, entry: Entry) -> Entry:
        with self._open_client() as notion:
            source = self._retrieve_source(notion, entry.kind)
            parent = {"type": "data_source_id", "data_source_id": source.id}
            properties = to_properties(entry, source.properties)
            page = _read(notion.pages.create(parent=parent, properties=properties), _Page)
        return replace(entry, id=page.id)

    def entries(self, kind: Kind) -> Sequence[Entry]:
        with self._open_client() as notion:
            source = self._retrieve_source(notion, kind)
            pages = self._query_pages(notion, kind, source, sorts=NEWEST_FIRST)
            return [from_page(page, kind, source.properties) for page in pages]

    def set_status(self, entry: Entry, status: str) -> Entry:
        with self._open_client() as notion:
            columns = self._retrieve_source(notion, entry.kind).properties
            notion.pages.update(entry.id, properties={"Status": build_status_cell(entry.kind, status, columns)})
        return replace(entry, status=status)

    def expenses(self, month: str) -> Sequence[Expense]:
        first = date.fromisoformat(f"{month}-01")
        after = (first + timedelta(days=31)).replace(day=1)
        in_month = [
            {"property": "Date", "date": {"on_or_after": first.isoformat()}},
            {"property": "Date", "date": {"before": after.isoformat()}},
        ]
        with self._open_client() as notion:
            source = self._retrieve_source(notion, "expense")
            pages = list(self._query_pages(notion, "expense", source, filter={"and": in_month}))
        return [_to_expense(page) for page in pages]

    def check(self) -> list[tuple[str, bool, str]]:
        """Check the token, and each database if the token is accepted. Return a line for each as `toolyard doctor`."""
        try:
            with self._open_client() as notion:
                notion.users.me()
        except ToolError as error:
            return [("notion", False, f"NOTION_TOKEN: {error}")]
        return [("notion", True, "the token is taken"), *(self._check_database(base) for base in VARIABLES)]

    def _check_database(self, base: Base) -> tuple[str, bool, str]:
        variable = VARIABLES[base]
        if not self.databases.get(base):
            return "notion", True, f"{variable} is not set: the tools that need it will say so"
        try:
            with self._open_client() as notion:
                columns = self._retrieve_source(notion, base).properties
        except ToolError as error:
            return "notion", False, f"{variable}: {error}"
        wrong = [
            f"{name} ({' or '.join(types).replace('rich_text', 'text')})"
            for name, types in COLUMNS[base].items()
            if name not in columns or columns[name].type not in types
        ]
        if wrong:
            return "notion", False, f"{variable}: it needs {', '.join(wrong)}"
        return "notion", True, f"{variable}: its columns fit"

    @contextmanager
    def _open_client(self) -> "Generator[Client]":
        """Open a client for one operation. Raise ToolError for an error of Notion."""
        try:
            package, httpx = importlib.import_module("notion_client"), importlib.import_module("httpx")
        except ModuleNotFoundError:
            message = "NOTION_TOKEN is set, but notion-client is not installed: pip install notion-client"
            raise ToolError(message, "unavailable") from None
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
                raise _build_error(str(error), code, error.status) from None
            except httpx.HTTPError as error:
                raise ToolError(f"Notion cannot be reached: {error}", "unavailable") from None

    def _retrieve_source(self, notion: "Client", base: Base) -> _Source:
        """Return the data source of a database with its columns: a Notion database keeps its rows in data sources."""
        database = self.databases.get(base)
        if not database:
            raise ToolError(f"no Notion database is set for this: set {VARIABLES[base]}", "unavailable")
        sources = _read(notion.databases.retrieve(database), _Database).data_sources
        if not sources:
            raise ToolError(f"the Notion database of {VARIABLES[base]} has no data source", "not_found")
        return _read(notion.data_sources.retrieve(sources[0].id), _Source)

    def _query_pages(self, notion: "Client", base: Base, source: _Source, **query: object) -> Iterator[_Page]:
        for _ in range(MAX_PAGES):
            batch = _read(notion.data_sources.query(source.id, page_size=100, **query), _Pages)
            yield from batch.results
            if not batch.has_more or not batch.next_cursor:
                return
            query["start_cursor"] = batch.next_cursor
        raise ToolError(f"the Notion database of {VARIABLES[base]} is too long to read", "too_large")


def to_properties(entry: Entry, columns: Columns) -> dict[str, object]:
    """Return an entry as the columns of its database."""
    cells: dict[str, object] = {TITLES[entry.kind]: {"title": [{"text": {"content": entry.name}}]}}
    if entry.kind == "grocery":
        cells["Qty"] = {"number": entry.qty}
    if entry.status:
        cells["Status"] = build_status_cell(entry.kind, entry.status, columns)
    if entry.unit:
        cells["Unit"] = _build_text_cell(entry.unit, columns.get("Unit"))
    if entry.starts:
        ends = _to_notion_time(entry.ends) if entry.ends else None
        cells[TIMES[entry.kind]] = {"date": {"start": _to_notion_time(entry.starts), "end": ends}}
    if entry.location:
        cells["Location"] = _build_text_cell(entry.location, columns.get("Location"))
    return cells


def build_status_cell(kind: Kind, status: str, columns: Columns) -> dict[str, object]:
    """Return one of our statuses as the Status column takes it.

    Notion adds a missing option to a select column, but not to a status column. Where a status column has no option
    of that name, the first option of the corresponding group stands for it: "Not started" for "Needed".
    """
    column = columns.get("Status", _Column("select"))
    if column.status is None or any(option.name == status for option in column.status.options):
        return _build_text_cell(status, column)
    groups = zip(STATUSES[kind], column.status.groups, strict=False)
    option_ids = next((group.option_ids for our_status, group in groups if our_status == status), list[str]())
    stand_ins = (option.name for option in column.status.options if option.id in option_ids)
    return _build_text_cell(next(stand_ins, status), column)


def read_status(kind: Kind, cell: _Cell, columns: Columns) -> str:
    """Return the status of a page as one of ours, or unchanged if none of ours corresponds to it."""
    name = _read_text(cell)
    column = columns.get("Status")
    if name in STATUSES[kind] or column is None or column.status is None:
        return name
    option_ids = {option.id for option in column.status.options if option.name == name}
    groups = zip(STATUSES[kind], column.status.groups, strict=False)
    return next((status for status, group in groups if option_ids & set(group.option_ids)), name)


def from_page(page: _Page, kind: Kind, columns: Columns) -> Entry:
    """Return a page of a database as an entry; the field of a column that is missing is empty."""
    empty = _Cell()
    cells = page.properties
    dates = cells.get(TIMES.get(kind, ""), empty).date
    return Entry(
        kind=kind,
        id=page.id,
        name=_join_texts(cells.get(TITLES[kind], empty).title),
        status=read_status(kind, cells.get("Status", empty), columns),
        qty=int(cells.get("Qty", empty).number or 1),
        unit=_read_text(cells.get("Unit", empty)),
        starts=_from_notion_time(dates.start) if dates else "",
        ends=_from_notion_time(dates.end) if dates and dates.end else "",
        location=_read_text(cells.get("Location", empty)),
    )


def _to_expense(page: _Page) -> Expense:
    empty = _Cell()
    category = _read_text(page.properties.get("Category", empty))
    amount = page.properties.get("Amount", empty).number or 0
    return Expense(category=category or "Other", cents=round(amount * 100))


def _build_text_cell(text: str, column: _Column | None) -> dict[str, object]:
    """Return a text as its column takes it: as rich text, or as an option."""
    if column is not None and column.type in ("select", "status"):
        return {column.type: {"name": text}}
    return {"rich_text": [{"text": {"content": text}}]}


def _read_text(cell: _Cell) -> str:
    option = cell.select or cell.status
    return option.name if option else _join_texts(cell.rich_text)


def _to_notion_time(moment: str) -> str:
    """Return a day unchanged and a time with its zone: Notion takes a time without a zone as UTC."""
    if "T" not in moment:
        return moment
    parsed = datetime.fromisoformat(moment)
    return (parsed if parsed.tzinfo else parsed.astimezone()).isoformat()


def _from_notion_time(moment: str) -> str:
    return datetime.fromisoformat(moment).isoformat() if "T" in moment else moment


def _join_texts(texts: Sequence[_Text]) -> str:
    return "".join(text.plain_text for text in texts)


def _read(answer: object, shape: type[T]) -> T:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise ToolError(f"Notion's answer cannot be read: {error}", "unavailable") from None


def _build_error(message: str, code: str, status: int) -> ToolError:
    error_type = ERROR_TYPES.get(code, "unavailable" if status >= 429 else "execution_error")
    return ToolError(f"Notion refused: {message}", error_type, {"code": code, "status": status})
