"""A text becomes tokens, each with the concepts that its words stand for. It does not know what is asked for."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

from msgspec import Struct

from toolyard.finding.words import stem
from toolyard.models._offline.lexicon import Entry, entries

MOST_PHRASE = 5
_WORD = re.compile(r"[A-Za-zÀ-ɏ0-9]+(?:[-_.'][A-Za-zÀ-ɏ0-9]+)*'?|[\u3400-\u9fff]+|[^\s\w]|\w", re.ASCII)
_CJK = re.compile(r"[\u3400-\u9fff]")
_QUOTED = re.compile(r"“([^”]+)”|\"([^\"]+)\"|「([^」]+)」|『([^』]+)』|《([^》]+)》|‘([^’]+)’|(?<!\w)'([^']+)'(?!\w)")
_GLUE = "的了吗呢和与跟、把从及为是叫"
_AFTER_A_THING = ("上", "里", "中", "内", "下")
_MEASURES = "碗盘壶锅勺个瓶袋盒包斤罐箱份只根条支块片升听桶卷杯头颗串棵张件双板提打听把本台桶篮筒"
_COUNTED = re.compile(rf"(?:[零一二两三四五六七八九十百千半]+|\d+)(?:公斤|千克|毫升|公升|[{_MEASURES}])(?:装)?|\d+")
_NO_MATCH = frozenset[str]()

Concepts = frozenset[str]
Span = tuple[int, int]


class Token(Struct, frozen=True):
    """A word or a known phrase, where it stands, and what it may mean: `do:add`, `of:cart`, `is:bought`, `fn:and`."""

    text: str
    start: int
    end: int
    means: Concepts = _NO_MATCH
    kinds: Concepts = _NO_MATCH

    @property
    def stem(self) -> str:
        return stem(self.text.casefold())

    def has(self, meant: str) -> bool:
        """A concept such as `fn:and`, or any of a kind such as `do:`."""
        return meant in self.means or meant in self.kinds

    def actions(self) -> tuple[str, ...]:
        return _actions(self.means)


def plain(text: str) -> str:
    """The text with one kind of apostrophe and space, as long as it was."""
    return re.sub(r"\s", " ", text.replace("’", "'").replace("＇", "'"))


def is_chinese(text: str) -> bool:
    return not text.isascii() and _CJK.search(text) is not None


def language_of(text: str) -> str:
    """`zh` or `en`: by the words that hold the sentence together, else by its letters."""
    tokens = tokens_of(text)
    known = [is_chinese(token.text) for token in tokens if token.means]
    chinese, english = sum(known), len(known) - sum(known)
    if chinese == english:
        chinese, english = len(_CJK.findall(text)), len(re.findall(r"[A-Za-z]", text))
    return "zh" if chinese > english else "en"


@lru_cache(maxsize=1024)
def quoted(text: str) -> tuple[tuple[Span, str], ...]:
    """What stands in quotation marks, with its place."""
    return tuple((found.span(), next(filter(None, found.groups())).strip()) for found in _QUOTED.finditer(text))


@lru_cache(maxsize=4096)
def _kinds(means: Concepts) -> Concepts:
    return frozenset(one[:3] for one in means)


@lru_cache(maxsize=4096)
def _actions(means: Concepts) -> tuple[str, ...]:
    return tuple(one[3:] for one in sorted(means) if one.startswith("do:"))


def tokens_of(text: str, apart: Sequence[Span] = ()) -> list[Token]:
    """The tokens of a text; what stands in quotation marks, or apart for another reason, is one without a meaning."""
    return list(_tokens(text, tuple(apart)))


@lru_cache(maxsize=2048)
def _tokens(text: str, apart: tuple[Span, ...]) -> tuple[Token, ...]:
    found: list[Token] = []
    at = 0
    for start, end in sorted([*(span for span, _ in quoted(text)), *apart]):
        if start < at:
            continue
        found += _plain_tokens(text, at, start)
        found.append(Token(text[start:end], start, end))
        at = end
    return (*found, *_plain_tokens(text, at, len(text)))


def _plain_tokens(text: str, start: int, end: int) -> list[Token]:
    pieces: list[Token] = []
    for found in _WORD.finditer(text, start, end):
        if is_chinese(found.group()):
            pieces += _chinese(found.group(), found.start(), pieces[-1] if pieces else None)
        else:
            pieces.append(Token(found.group(), found.start(), found.end()))
    return list(_phrases(text, pieces))


def _phrases(text: str, pieces: list[Token]) -> Iterator[Token]:
    """Words that form a known phrase become one token, the longest first."""
    stems = [one.stem for one in pieces]
    written = [one.text.casefold() for one in pieces]
    at = 0
    while at < len(pieces):
        first = pieces[at]
        if first.means or is_chinese(first.text):
            yield first
            at += 1
            continue
        length, means = _longest(stems, written, at)
        last = pieces[at + length - 1]
        yield Token(text[first.start : last.end], first.start, last.end, means, _kinds(means))
        at += length


def _longest(stems: Sequence[str], written: Sequence[str], at: int) -> tuple[int, Concepts]:
    """How many words from here are the longest known phrase, by their stems or as they are written; 1 if none is."""
    table, exact, begun = _english(), _small_words(), _beginnings()
    stemmed, said = stems[at], written[at]
    best, length = (1, table.get(stemmed, _NO_MATCH) | exact.get(said, _NO_MATCH)), 1
    while at + length < len(stems) and (stemmed in begun or said in begun):
        stemmed, said, length = f"{stemmed} {stems[at + length]}", f"{said} {written[at + length]}", length + 1
        if means := table.get(stemmed, _NO_MATCH) | exact.get(said, _NO_MATCH):
            best = length, means
    return best


@cache
def _beginnings() -> frozenset[str]:
    """What longer phrases begin with, by stems and as written."""
    phrases = [phrase.split()[:MOST_PHRASE] for phrase in (*_english(), *_small_words())]
    return frozenset(" ".join(words[:length]) for words in phrases for length in range(1, len(words)))


def _chinese(run: str, offset: int, before: Token | None) -> Iterator[Token]:
    """Known words, the longest first; what is between them stays whole.

    A known word of one character counts only next to another one, so that the names of things are not cut up.
    """
    at, unknown, known_before, acted = 0, 0, True, bool(before and before.has("do:"))
    while at < len(run):
        word = _known_at(run, at, known_before, acted)
        if word in _AFTER_A_THING and known_before and not _ends_a_thing(before) and not _known_follows(run, at + 1):
            word = ""
        if not word:
            at, known_before = at + 1, False
            continue
        if unknown < at:
            yield Token(run[unknown:at], offset + unknown, offset + at)
        means = _meaning(word)
        token = Token(word, offset + at, offset + at + len(word), means, _kinds(means))
        acted = acted or token.has("do:")
        before = token
        yield token
        at = unknown = at + len(word)
        known_before = True
    if unknown < len(run):
        yield Token(run[unknown:], offset + unknown, offset + len(run))


def _known_at(run: str, at: int, known_before: bool, acted: bool) -> str:
    table = _chinese_table()
    for length in range(min(MOST_PHRASE + 1, len(run) - at), 1, -1):
        if run[at : at + length] in table:
            return run[at : at + length]
    counted = _COUNTED.match(run, at)
    if counted:
        return counted.group()
    one = run[at]
    if one not in table or (acted and _is_action(one)):
        return ""
    if known_before or one in _GLUE:
        return one
    at_end = at + 1 == len(run)
    return one if (_is_action(one) if at_end else _known_follows(run, at + 1)) else ""


def _ends_a_thing(before: Token | None) -> bool:
    """Whether a place may follow: `购物车里`, but not `找上海`."""
    return before is not None and (before.has("of:") or before.has("is:"))


def _known_follows(run: str, at: int) -> bool:
    table = _chinese_table()
    if at == len(run) or run[at] in _GLUE:
        return True
    return any(run[at : at + length] in table for length in range(min(MOST_PHRASE + 1, len(run) - at), 1, -1))


def _is_action(word: str) -> bool:
    return any(one.startswith("do:") for one in _meaning(word))


def _meaning(word: str) -> Concepts:
    return _chinese_table().get(word, frozenset({"fn:counted"}))


@cache
def _known() -> tuple[Entry, ...]:
    """The lexicon without small talk, which is known by whole messages."""
    return tuple(one for one in entries() if one.kind != "ta")


@cache
def _english() -> Mapping[str, Concepts]:
    """By the stems of their words."""
    return _table((stemmed(phrase), one) for one in _known() for phrase in one.english if not _as_written(one, phrase))


@cache
def _small_words() -> Mapping[str, Concepts]:
    """Words that count only as they are written: `called` holds a sentence together, `call` does not."""
    return _table(
        (phrase.removeprefix("="), one)
        for one in _known()
        for phrase in one.english
        if _as_written(one, phrase) and not (one.kind == "is" and " " in phrase)
    )


@cache
def _chinese_table() -> Mapping[str, Concepts]:
    """Without phrases for a value that hold another known word: `放进购物车` would hide the cart."""
    others = {phrase for one in _known() if one.kind in ("do", "of") for phrase in one.chinese if len(phrase) > 1}
    return _table(
        (phrase, one)
        for one in _known()
        for phrase in one.chinese
        if one.kind != "is" or not any(other in phrase != other for other in others)
    )


def _as_written(entry: Entry, phrase: str) -> bool:
    return entry.kind in ("fn", "is") or phrase.startswith("=")


def _table(pairs: Iterable[tuple[str, Entry]]) -> dict[str, Concepts]:
    found: dict[str, set[str]] = {}
    for phrase, entry in pairs:
        found.setdefault(phrase, set()).add(entry.concept)
    return {phrase: frozenset(means) for phrase, means in found.items()}


def stemmed(phrase: str) -> str:
    return " ".join(map(stem, phrase.casefold().split()))


@cache
def vocabulary() -> tuple[str, ...]:
    """The single English words that a misspelt word of a frame may have been meant as."""
    return tuple(
        sorted({word.removeprefix("=") for one in _known() for phrase in one.english for word in phrase.split()})
    )


@cache
def longer_verbs(length: int) -> tuple[str, ...]:
    """The verbs that are longer than this: what a short word may have been meant as."""
    verbs = {phrase for one in _known() if one.kind == "do" for phrase in one.english if phrase.isalpha()}
    return tuple(sorted(verb for verb in verbs if len(verb) > length))


@cache
def words_for(concept: str) -> frozenset[str]:
    """The English words that stand for a concept, of phrases the last: `list` of `grocery list`."""
    words = (phrase.split()[-1] for one in _known() if one.concept == concept for phrase in one.english)
    return frozenset(word for word in words if word.isalpha())


@cache
def value_pattern(value: str) -> re.Pattern[str]:
    """Where a text names a value, by its own name or by words that mean the same."""
    name = value.casefold().replace("_", " ")
    same = [one for one in _known() if one.concept in (f"is:{name}", f"of:{name}")]
    english = {name, *(phrase for one in same for phrase in one.english)}
    spelt, written = _longest_first(english), _longest_first({phrase for one in same for phrase in one.chinese})
    own = f"|{re.escape(name)}" if is_chinese(name) else ""
    return re.compile(
        rf"(?<![a-z0-9_'’])(?:{spelt})(?:s|ly)?(?![a-z0-9_])" + own + (f"|{written}" if written else ""), re.IGNORECASE
    )


def _longest_first(phrases: Iterable[str]) -> str:
    return "|".join(re.escape(one.removeprefix("=")) for one in sorted(phrases, key=lambda one: (-len(one), one)))
