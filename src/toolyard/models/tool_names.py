"""Tool names in a provider's alphabet, and back. A name that the provider takes is left as it is. Pure.

Any other becomes a readable one that ends in a hash of the true name: the same in every request, so that what was
encoded stays valid, and told apart from what it resembles.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_NAME_LENGTH = 64
_HASH_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Alphabet:
    """`whole` is what a name must match; `strange` finds what cannot be in one."""

    valid_name: re.Pattern[str]
    invalid_character: re.Pattern[str]


DEFAULT_ALPHABET = Alphabet(re.compile(r"[a-zA-Z0-9_-]{1,64}"), re.compile(r"[^a-zA-Z0-9_-]"))
"""OpenAI's and Anthropic's."""
GEMINI_ALPHABET = Alphabet(re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}"), re.compile(r"[^a-zA-Z0-9_.-]"))
"""A name begins with a letter or an underscore."""


def to_provider_name(name: str, alphabet: Alphabet = DEFAULT_ALPHABET) -> str:
    if alphabet.valid_name.fullmatch(name):
        return name
    digits = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_HASH_LENGTH // 2).hexdigest()
    readable = alphabet.invalid_character.sub("_", name)[: MAX_NAME_LENGTH - _HASH_LENGTH - 2]
    return f"_{readable}_{digits}"


def from_provider_name(name: str, offered: Iterable[str], alphabet: Alphabet = DEFAULT_ALPHABET) -> str:
    """The offered tool that the provider knows by this name; a name that stands for none is what the model made up."""
    if alphabet.valid_name.fullmatch(name) and not name.startswith("_"):
        return name
    return next((tool for tool in offered if to_provider_name(tool, alphabet) == name), name)
