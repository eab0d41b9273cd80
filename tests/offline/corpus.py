"""The requests that a planner is scored on: what is said, and what must come of it. It does not know how to run them.

`requests/{domain}_open.toml` may be looked at while a planner is made; `requests/{domain}_held.toml` was written from
the tools' schemas alone and is for scoring only; so was `requests/{domain}_later.toml`, after the planner was tuned.
`foreign/requests` holds the same for tools that somebody else wrote for himself, who had not seen the planner.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

OwnDomain = Literal["household", "warehouse", "shop"]
ForeignDomain = Literal[
    "calendar", "email", "home", "utils", "crm", "files", "hotel", "bank",
    "todo", "music", "fitness", "code", "flights", "freelance", "recipes", "library",
]  # fmt: skip
Domain = OwnDomain | ForeignDomain
Half = Literal["open", "held", "later"]
World = Literal["usual", "broken", "empty"]
Saying = Literal["anything", "question", "nothing_found", "failure", "cannot"]

DOMAINS: tuple[OwnDomain, ...] = get_args(OwnDomain)
FOREIGN: tuple[ForeignDomain, ...] = get_args(ForeignDomain)
HALVES: tuple[Half, ...] = get_args(Half)
HERE = Path(__file__).parent
Text = Annotated[str, Meta(min_length=1)]


class Leeway(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An argument that may be right in more than one way."""

    any_of: tuple[object, ...] = ()
    """One of these, exactly."""
    holds: tuple[Text, ...] = ()
    """Any text with one of these in it."""
    optional: bool = False
    """It may also be left out."""


class ExpectedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: Text
    arguments: dict[str, object] = {}
    """Exact values, or tables with the fields of Leeway. An argument that equals its default may be left out."""
    lookup: Literal["must", "may"] | None = None
    """A search on the way: any arguments will do, once or more; if it only may be made, it may also be left out."""

    def leeway(self, name: str) -> Leeway:
        """What this argument may be; one that is not named here may not be given."""
        if name not in self.arguments:
            return Leeway(optional=True)
        try:
            return msgspec.convert(self.arguments[name], Leeway)
        except msgspec.ValidationError:
            return Leeway(any_of=(self.arguments[name],))


Chain = tuple[ExpectedCall, ...]
Plan = tuple[Chain, ...]
"""Inside a chain the order holds; chains may come one after the other, interleaved or at once."""


class CorpusExchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message, the calls it must lead to (none: it must lead to none), and what the answer must be like."""

    message: Text
    calls: Plan = ()
    or_calls: tuple[Plan, ...] = ()
    """Other plans that are as good."""
    says: Saying = "anything"
    answer_contains: tuple[Text | tuple[Text, ...], ...] = ()
    """Each of these, in upper or lower case; of a list, one."""
    answer_lacks: tuple[Text, ...] = ()

    def plans(self) -> tuple[Plan, ...]:
        return self.calls, *self.or_calls


class CorpusRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One or several exchanges in one conversation; it is right only if all of them are."""

    id: Text
    kind: Text
    exchanges: Annotated[tuple[CorpusExchange, ...], Meta(min_length=1)]
    language: Literal["", "en", "zh"] = ""
    """What the answers must be in; in any, if left out, for tools whose own words are all that there is to say."""
    roles: frozenset[str] = frozenset({"staff"})
    world: World = "usual"
    approve: bool = True
    """What becomes of a call that somebody must say yes to."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    requests: tuple[CorpusRequest, ...]


def list_files(domains: Sequence[Domain]) -> list[tuple[Domain, Half]]:
    """The halves that there are of these: some of other people's tools have no open one."""
    return [(domain, half) for half in HALVES for domain in domains if _path(domain, half).exists()]


def load_requests(domain: Domain, half: Half) -> tuple[CorpusRequest, ...]:
    return msgspec.convert(tomllib.loads(_path(domain, half).read_text("utf-8")), _File).requests


def _path(domain: Domain, half: Half) -> Path:
    return (HERE / "foreign" if domain in FOREIGN else HERE) / "requests" / f"{domain}_{half}.toml"
