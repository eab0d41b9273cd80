"""A tool that says that it began and goes on when it is let: both over pipes that a test made."""

import os
from pathlib import Path

from toolyard import tool

FOLDER = Path(os.environ["PIPES"])


@tool(idempotent=True, examples=["add {item} to groceries"])
def add_to_groceries(item: str) -> dict[str, object]:
    """Put an item on the grocery list."""
    (FOLDER / "began").write_text(f"{item}\n")
    (FOLDER / "go_on").read_text()
    return {"ok": True, "item": item}
