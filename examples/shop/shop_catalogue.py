"""The shop's catalogue: queries on the SQLite file of products."""

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
    """Read access to the products. Every query opens its own connection, so that any thread may ask."""

    def __init__(self, path: Path) -> None:
        self._address = f"{path.resolve().as_uri()}?mode=ro"

    def search(self, text: str = "", category: str = "", limit: int = 24) -> list[Product]:
        """Return the products that contain every word, first those whose name ends with the last word.

        A search for milk lists Full Cream Milk before Milk Chocolate.
        """
        words = [_to_singular(word) for word in re.findall(r"\w+", text.lower())]
        values: dict[str, object] = {"category": category, "limit": limit, "name": f"%{words[-1]}%" if words else "%"}
        values |= {f"w{number}": f"%{word}%" for number, word in enumerate(words)}
        all_texts = "lower(name || ' ' || brand || ' ' || category || ' ' || description || ' ' || size)"
        conditions = "".join(f" AND {all_texts} LIKE :w{number}" for number in range(len(words)))
        query = f"""SELECT {COLUMNS} FROM products
        WHERE (:category = '' OR lower(category) = lower(:category)){conditions}
        ORDER BY (lower(name) LIKE rtrim(:name, '%') OR lower(name) LIKE rtrim(:name, '%') || 's') DESC,
        lower(name) LIKE :name DESC, stock = 0, code LIMIT :limit"""
        return self._query(query, values)

    def find_product(self, code: str) -> Product | None:
        products = self._query(f"SELECT {COLUMNS} FROM products WHERE code = :code", {"code": code})
        return products[0] if products else None

    def list_categories(self) -> list[str]:
        with closing(sqlite3.connect(self._address, uri=True)) as connection:
            rows = connection.execute("SELECT category FROM products GROUP BY category ORDER BY min(code)")
            return [category for (category,) in rows.fetchall()]

    def _query(self, query: str, values: dict[str, object]) -> list[Product]:
        with closing(sqlite3.connect(self._address, uri=True)) as connection:
            rows: Sequence[tuple[str, str, str, str, str, int, int, str]] = connection.execute(query, values).fetchall()
            return [Product(*row) for row in rows]


def _to_singular(word: str) -> str:
    """Return a word without its plural s, so that `eggs` and `egg` find the same products."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
