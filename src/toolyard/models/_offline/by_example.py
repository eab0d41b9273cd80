"""What an example shows: where the thing stands that is asked for, and what stands around it.

`同意张磊的年假` shows that in `同意周婷的报销` 周婷 is meant; `find customer Smith`, that a customer's name comes last.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from toolyard.models._offline.sheet import EDGE, GAP, Sheet
from toolyard.models._offline.words import is_chinese

LEAST_ALIKE = 0.75
LEAST_CHARACTERS, LEAST_WORDS = 3, 2
"""How much of what stands around the thing must be the same."""
_PIECE = re.compile(rf"{GAP}|[\u3400-\u9fff]|[A-Za-z0-9'’.-]+|\S")
_POLITE = re.compile(
    r"^(?:请|麻烦你?|帮我|给我|我想要?|我要|能不能|可以|please|can you|could you|i want to|i'd like to)+\s*",
    re.IGNORECASE,
)


class Shown(Struct, frozen=True):
    """The thing as an example shows it, and how much of the rest is the same."""

    text: str
    alike: float


def shown(sheet: Sheet, examples: Sequence[str]) -> Shown | None:
    """The best example's; None if none is like what is said. `examples` have gaps where their values were."""
    said = sheet.with_gaps()
    found = [one for example in examples if (one := _aligned(said, example))]
    return max(found, key=lambda one: one.alike, default=None)


def _aligned(said: str, example: str) -> Shown | None:
    said, example = _POLITE.sub("", said), _POLITE.sub("", example)
    mine, other = _pieces(said), _pieces(example)
    blocks = SequenceMatcher(
        None, [one.casefold() for one, _, _ in mine], [one.casefold() for one, _, _ in other], False
    )
    changes = [block for block in blocks.get_opcodes() if block[0] != "equal"]
    replaced = [block for block in changes if block[0] == "replace"]
    if len(replaced) != 1 or any(GAP in (one for one, _, _ in mine[block[1] : block[2]]) for block in replaced):
        return None
    ((_, start, end, first, last),) = replaced
    if not start or not first or mine[0][0].casefold() != other[0][0].casefold():
        return None
    same = [one for tag, i, j, _, _ in blocks.get_opcodes() if tag == "equal" for one, _, _ in mine[i:j] if one != GAP]
    frame = [one for one, _, _ in (*other[:first], *other[last:]) if one[0].isalnum()]
    telling = [one for one in same if one[0].isalnum()]
    least = LEAST_CHARACTERS if is_chinese("".join(frame)) else LEAST_WORDS
    alike = len(telling) / max(len(frame), 1)
    text = said[mine[start][1] : mine[end - 1][2]].strip(EDGE)
    return Shown(text, alike) if len(telling) >= least and alike >= LEAST_ALIKE and text else None


def _pieces(text: str) -> list[tuple[str, int, int]]:
    return [(found.group(), *found.span()) for found in _PIECE.finditer(text)]
