"""The shop's catalogue: asks the SQLite file and knows nothing of pages, carts or assistants."""

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

COLUMNS = "code, name, brand, category, size, cents, stock, description"


class Product(Struct, frozen=True):
    code: str
    name: str
    brand: str
    category: str
    size: str
    cents: int
    stock: int
    description: str


class Catalogue:
    def __init__(self, path: Path) -> None:
        self._address = f"{path.resolve().as_uri()}?mode=ro"

    def search(self, text: str = "", category: str = "", most: int = 24) -> list[Product]:
        """Those that hold every word; first those that are called so, as Full Cream Milk is milk and no chocolate."""
        words = [_singular(word) for word in re.findall(r"\w+", text.lower())]
        named: dict[str, object] = {"category": category, "most": most, "called": f"%{words[-1]}%" if words else "%"}
        named |= {f"w{number}": f"%{word}%" for number, word in enumerate(words)}
        everything = "lower(name || ' ' || brand || ' ' || category || ' ' || description || ' ' || size)"
        holds = "".join(f" AND {everything} LIKE :w{number}" for number in range(len(words)))
        query = f"""SELECT {COLUMNS} FROM products WHERE (:category = '' OR lower(category) = lower(:category)){holds}
        ORDER BY (lower(name) LIKE rtrim(:called, '%') OR lower(name) LIKE rtrim(:called, '%') || 's') DESC,
        lower(name) LIKE :called DESC, stock = 0, code LIMIT :most"""
        return self._ask(query, named)

    def product(self, code: str) -> Product | None:
        found = self._ask(f"SELECT {COLUMNS} FROM products WHERE code = :code", {"code": code})
        return found[0] if found else None

    def categories(self) -> list[str]:
        with closing(sqlite3.connect(self._address, uri=True)) as connection:
            rows = connection.execute("SELECT category FROM products GROUP BY category ORDER BY min(code)")
            return [category for (category,) in rows.fetchall()]

    def _ask(self, query: str, values: dict[str, object]) -> list[Product]:
        with closing(sqlite3.connect(self._address, uri=True)) as connection:
            rows: Sequence[tuple[str, str, str, str, str, int, int, str]] = connection.execute(query, values).fetchall()
            return [Product(*row) for row in rows]


def _singular(word: str) -> str:
    """Eggs are found by egg, and the other way round."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
