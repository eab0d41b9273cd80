"""The places that requests are made in: the tools of a domain over fresh data that is the same every time."""

import os
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from examples.conftest import CONNECTIONS
from examples.loading import tools_of
from offline.clock import NOW
from offline.corpus import Domain, World
from offline.foreign import (
    bank,
    calendar,
    code,
    crm,
    email,
    files,
    fitness,
    flights,
    freelance,
    home,
    hotel,
    library,
    music,
    recipes,
    todo,
    utils,
)
from offline.shop import IN_THE_CART, Shop, shop_tools
from toolyard import FunctionTool, ToolLike
from toolyard.venues.function import as_tool

GROCERIES = (
    ("milk", "Needed", 1),
    ("eggs", "Needed", 10),
    ("olive oil", "Needed", 1),
    ("coffee", "In cart", 2),
    ("bananas", "Needed", 6),
    ("dish soap", "Needed", 1),
    ("cat food", "In cart", 4),
    ("大米", "Needed", 1),
    ("酱油", "In cart", 1),
)
TASKS = (
    "call the plumber",
    "water the plants",
    "pay the electricity bill",
    "clean the garage",
    "renew the passport",
    "fix the bike",
    "交水费",
    "打扫厨房",
)
THIS_MONTH = (("Rent", 95_000), ("Groceries", 8_240), ("Groceries", 6_415), ("Energy", 7_890), ("Leisure", 3_200))
OTHER_MONTHS = {
    "2026-10": (("Rent", 95_000), ("Groceries", 21_030), ("Energy", 6_420), ("Health", 4_500)),
    "2026-09": (("Rent", 95_000), ("Groceries", 18_875), ("Leisure", 12_000)),
}


FOREIGN_TOOLS: Mapping[str, tuple[Callable[[], None], Sequence[ToolLike]]] = {
    "bank": (bank.reset, bank.TOOLS),
    "calendar": (calendar.reset, calendar.TOOLS),
    "code": (code.reset, code.TOOLS),
    "crm": (crm.reset, crm.TOOLS),
    "email": (email.reset, email.TOOLS),
    "files": (files.reset, files.TOOLS),
    "fitness": (fitness.reset, fitness.TOOLS),
    "flights": (flights.reset, flights.TOOLS),
    "freelance": (freelance.reset, freelance.TOOLS),
    "home": (home.reset, home.TOOLS),
    "hotel": (hotel.reset, hotel.TOOLS),
    "library": (library.reset, library.TOOLS),
    "music": (music.reset, music.TOOLS),
    "recipes": (recipes.reset, recipes.TOOLS),
    "todo": (todo.reset, todo.TOOLS),
    "utils": (utils.reset, utils.TOOLS),
}
"""What sets its data back, and the tools."""


@contextmanager
def world(domain: Domain, kind: World) -> Generator[Sequence[ToolLike]]:
    """The domain's tools. In a broken world, where things are kept cannot be reached; an empty one holds nothing."""
    if domain in FOREIGN_TOOLS:
        reset, tools = FOREIGN_TOOLS[domain]
        reset()
        yield tools
        return
    if domain == "shop":
        yield shop_tools(Shop(cart=dict(IN_THE_CART) if kind == "usual" else {}, broken=kind == "broken"))
        return
    variable = {"household": "HOUSEHOLD_DB", "warehouse": "WAREHOUSE_DB"}[domain]
    with TemporaryDirectory() as folder:
        file = Path(folder) if kind == "broken" else Path(folder) / f"{domain}.db"
        with _environment({**dict.fromkeys(CONNECTIONS), variable: str(file)}):
            tools = _load_tools(domain)
            if domain == "household" and kind == "usual":
                _fill_household(file)
            yield tools


@cache
def _load_tools(domain: Domain) -> Sequence[ToolLike]:
    """They read the environment when they are called, so that they need not be loaded again."""
    return tools_of(domain)


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in variables}
    _set_variables(variables)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _fill_household(file: Path) -> None:
    """A household with something on its lists.

    `budget_scan` without a month looks at the system's: it finds the same there as in the month of NOW.
    """
    scan = next(tool for tool in map(as_tool, _load_tools("household")) if tool.definition.name == "budget_scan")
    assert isinstance(scan, FunctionTool)
    scan()
    months = {**OTHER_MONTHS, f"{NOW:%Y-%m}": THIS_MONTH, f"{date.today():%Y-%m}": THIS_MONTH}
    expense_rows = [(f"{month}-05", *expense) for month, expenses in months.items() for expense in expenses]
    things = [("grocery", *grocery) for grocery in GROCERIES] + [("task", task, "To do", 1) for task in TASKS]
    with closing(sqlite3.connect(file)) as rows, rows:
        rows.execute("DELETE FROM expenses")
        rows.executemany("INSERT INTO expenses (day, category, cents, note) VALUES (?, ?, ?, '')", expense_rows)
        rows.executemany(
            "INSERT INTO entries (kind, name, status, qty, starts, ends, place) VALUES (?, ?, ?, ?, '', '', '')", things
        )
