"""Converts tool names into a provider's alphabet, and back. A name that the provider accepts stays as it is. Pure.

Any other name becomes a readable one that ends in a hash of the original. It is the same in every request, so that
encoded items stay valid, and distinct from similar names.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_NAME_LENGTH = 64
_HASH_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The names that a provider accepts: `valid_name` matches a name, `invalid_character` finds what to replace."""

    valid_name: re.Pattern[str]
    invalid_character: re.Pattern[str]


DEFAULT_ALPHABET = Alphabet(re.compile(r"[a-zA-Z0-9_-]{1,64}"), re.compile(r"[^a-zA-Z0-9_-]"))
"""The alphabet of OpenAI and Anthropic."""
GEMINI_ALPHABET = Alphabet(re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}"), re.compile(r"[^a-zA-Z0-9_.-]"))
"""Gemini's alphabet: a name begins with a letter or an underscore."""


def to_provider_name(name: str, alphabet: Alphabet = DEFAULT_ALPHABET) -> str:
    if _is_valid(name, alphabet):
        return name
    digits = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_HASH_LENGTH // 2).hexdigest()
    readable = alphabet.invalid_character.sub("_", name)[: MAX_NAME_LENGTH - _HASH_LENGTH - 2]
    return f"_{readable}_{digits}"


def from_provider_name(name: str, offered: Iterable[str], alphabet: Alphabet = DEFAULT_ALPHABET) -> str:
    """Return the offered tool with this provider name; the name itself if there is none: the model made it up.

    Converted names begin with an underscore, so that most names need no search.
    """
    if not name.startswith("_") and _is_valid(name, alphabet):
        return name
    return next((tool for tool in offered if to_provider_name(tool, alphabet) == name), name)


def _is_valid(name: str, alphabet: Alphabet) -> bool:
    # An identifier fits each alphabet. Most names are one, and a pattern takes twice as long.
    is_identifier = name.isascii() and name.isidentifier() and len(name) <= MAX_NAME_LENGTH
    return is_identifier or alphabet.valid_name.fullmatch(name) is not None
