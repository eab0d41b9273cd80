"""What to do next in a conversation: make calls, ask, or answer. Pure: it reads the history and decides."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from msgspec import Struct

from toolyard.core.history import History
from toolyard.core.items import Call, Item, ModelText, Result, UserMessage
from toolyard.models._offline.answers import with_another, with_answer
from toolyard.models._offline.clauses import MOST_TEXT, starts_a_request
from toolyard.models._offline.matching import Matcher
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.progress import Wanted, advance
from toolyard.models._offline.requests import Request, Understood, understand
from toolyard.models._offline.talk import small_talk
from toolyard.models._offline.wording import answer, cannot, pick, question, talk
from toolyard.models._offline.words import is_chinese, language_of, tokens_of

MOST_TURNS = 6
MOST_BACK = 6
"""How many messages are looked back at for the request that a short answer completes."""
MOST_ITEMS = 400


class Step(Struct, frozen=True, kw_only=True):
    """Calls to make, or a text to say."""

    calls: tuple[Wanted, ...] = ()
    text: str = ""


class Exchange(Struct, frozen=True, kw_only=True):
    """A message and what followed it."""

    text: str
    at: datetime
    done: tuple[tuple[Call, Result], ...] = ()
    turns: int = 0
    asked: bool = False
    """Whether it was answered with a question and nothing else."""


def next_step(history: History, matcher: Matcher, finder: Profile | None, choice: str) -> Step:
    exchanges = exchanges_of(history)
    if not exchanges:
        return Step(text=talk("help", list(matcher.profiles.values()), "en"))
    this = exchanges[-1]
    language = _language(exchanges)
    if not this.done and (kind := small_talk(this.text)) and choice not in matcher.profiles:
        return Step(text=talk(kind, list(matcher.profiles.values()), language))
    found = _understood(exchanges, matcher, choice)
    if not found.requests:
        return _unknown(this, matcher, finder, language)
    return _go_on(found.requests, this, language)


def _language(exchanges: Sequence[Exchange]) -> str:
    """That of the last message that has words of one: a code or a date alone is in the language spoken before."""
    for exchange in reversed(exchanges):
        if is_chinese(exchange.text) or any(token.means for token in tokens_of(exchange.text[:MOST_TEXT])):
            return language_of(exchange.text[:MOST_TEXT])
    return "en"


def _go_on(requests: Sequence[Request], this: Exchange, language: str) -> Step:
    missing = next(((one, place) for one in requests if (place := one.missing)), None)
    if missing and not this.done:
        return Step(text=question(*missing, language))
    calls, outcomes = advance([one for one in requests if not one.missing], this.done)
    if calls and this.turns < MOST_TURNS:
        return Step(calls=tuple(calls))
    return Step(text=answer(outcomes, language) or pick(language, "Done.", "完成。"))


def _unknown(this: Exchange, matcher: Matcher, finder: Profile | None, language: str) -> Step:
    """Nothing here fits: look for more tools once if there is something to look with, else say so."""
    looked = finder is not None and any(call.tool == finder.tool.name for call, _ in this.done)
    if finder and finder.main and not looked and not this.done:
        return Step(calls=(Wanted(finder.tool.name, {finder.main.name: this.text[:200]}),))
    return Step(text=cannot(list(matcher.profiles.values()), language))


def _understood(exchanges: Sequence[Exchange], matcher: Matcher, choice: str) -> Understood:
    """The last message, as a request of its own or as the answer to a question about an earlier one."""
    only = choice if choice in matcher.profiles else ""
    pending: Understood | None = None
    before: Understood | None = None
    things: list[str] = []
    for at, exchange in enumerate(exchanges):
        found = understand(exchange.text, matcher, exchange.at, things, only if at == len(exchanges) - 1 else "")
        own = found.clear and starts_a_request(exchange.text)
        if pending and pending.requests and not own and not _let_go(exchange.text):
            answered = with_answer(pending.requests, exchange.text, exchange.at)
            found = Understood(requests=answered, certain=True) if answered else found
        alone = not found.requests
        if before and (again := with_another(before.requests, exchange.text, exchange.at, alone=alone)):
            found = Understood(requests=again, certain=True)
        things = [one.item for one in found.requests if one.item] or things
        pending, before = found if exchange.asked else None, found
        if at == len(exchanges) - 1:
            return found
    return Understood(requests=(), certain=False)


def _let_go(text: str) -> bool:
    return small_talk(text) == "never_mind"


def exchanges_of(history: History) -> list[Exchange]:
    """The last few messages with what followed each."""
    items: list[Item] = list(history.since(max(0, len(history) - MOST_ITEMS)))
    starts = [at for at, item in enumerate(items) if isinstance(item, UserMessage)][-MOST_BACK:]
    return [_exchange(items[start:end]) for start, end in zip(starts, [*starts[1:], len(items)], strict=True)]


def _exchange(items: Sequence[Item]) -> Exchange:
    message = items[0]
    calls = [item for item in items if isinstance(item, Call)]
    results = {item.call_id: item for item in items if isinstance(item, Result)}
    said = "".join(item.text for item in items if isinstance(item, ModelText)).strip()
    turns = sum(isinstance(item, Call) and not isinstance(before, Call) for before, item in pairwise(items))
    return Exchange(
        text=message.text if isinstance(message, UserMessage) else "",
        at=datetime.fromtimestamp(message.at),
        done=tuple((call, results[call.id]) for call in calls if call.id in results),
        turns=turns,
        asked=not calls and said.endswith(("?", "？")),
    )
