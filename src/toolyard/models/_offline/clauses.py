"""A message becomes clauses: one for each thing that is asked for, with what is said in it about time and bounds."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from toolyard.finding.words import stem
from toolyard.models._offline.amounts import Bound, bounds
from toolyard.models._offline.ellipsis import spelt_out
from toolyard.models._offline.literals import Found, literals
from toolyard.models._offline.past import IRREGULAR
from toolyard.models._offline.plainly import plainly
from toolyard.models._offline.profiles import topics_of
from toolyard.models._offline.times import Times, times_in
from toolyard.models._offline.words import Token, is_chinese, plain, quoted, tokens_of

MOST_CLAUSES = 12
MOST_TEXT = 1000
MOST_JOINTS = 24
_SENTENCE = re.compile(r"(?<=[!?;。！？；\n])\s*|(?<=[a-z)\"'\u3400-\u9fff]{2}\.)\s+(?=[A-Z\"'])")
_JOINT = re.compile(
    r"\s*(?:,\s*)?\b(?:and then|and also|then|and|but|also|plus)\b\s+"
    r"|\s*[,，]\s*(?:然后|并且|接着|另外|再|顺便|还要?|同时|并)?\s*|(?:然后|并且|接着|同时|顺便|(?<!合)并)\s*"
    r"|,\s+(?=(?:please|could|can|would)\b)"
)
_ASKS = re.compile(
    r"^\W*(?:what|which|who|when|where|why|how|is|are|am|was|were|do|does|did|have you|has|should|may i ask|any)\b"
    r"|^\W*(?:(?:please )?tell me (?:if|whether)|i wonder|could you tell me (?:if|whether))\b"
    r"|吗|呢[?？]?$|什么|多少|有没有|有无|是否|怎么|哪|几|谁|为何|会不会|行不行|没有?[?？]$|了没有?$",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"^\W*(?:i|we)(?:'ve|\s+have|'m|\s+am|'re|\s+are)?(?:\s+(?:just|already|now|finally))*\s+"
    r"(?:done\b|working on\b|busy with\b|(?!need|indeed)"
    rf"(?:\w+ed|{'|'.join(IRREGULAR)})\b)"
    r"|^(?:the|my|our)\b.+\b(?:is|are|has been|have been)\s+(?!need)\w+(?:ed|aid|ent|ilt|one)\W*$"
    r"|^[^?]+\b(?:is|are)(?: now| already)? (?:done|finished|completed?|bought|in progress|in the cart)\W*$"
    r"|^[^?]+\b(?:has|have) (?:just |already )?been\s+\w+(?: up| off)?\W*$"
    r"|^(?:我们?)?(?:已经|刚刚?)|^(?!不要|不用|别).*了[。！!]?$",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"^\W*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening)|你好|您好|早上好|下午好|晚上好|嗨"
    r"|great|perfect|nice|cool|ok(?:ay)?|alright|thanks|thank you|yes|yeah|sure|that's all|that's it"
    r"|好的?|行|谢谢|太好了)"
    r"(?: there| again)?\s*[,，!！.。~]+\s*(?=\S))+",
    re.IGNORECASE,
)
_ORDERS = re.compile(
    r"^\W*(?:(?:could|can|would|will) you(?! (?:tell me (?:if|whether)|have|be))"
    r"|(?:could|can|may) (?:i|we) (?:please |also |still |just )*(?:get|have|see|order|buy|add|put))\b",
    re.IGNORECASE,
)


LONGEST_RUN = 40
_RUN = re.compile(r"\d{41,}|\s{41,}|(\S)\1{40,}")
"""What nobody says: figures, blanks or one letter without end."""
_MAY = re.compile(r"^\W*(?:can|could|may|shall|should|would|will)\b", re.IGNORECASE)


class Clause(Struct, frozen=True, kw_only=True):
    text: str
    tokens: tuple[Token, ...]
    times: Times
    bounds: tuple[Bound, ...]
    literals: tuple[Found, ...]
    asks: bool
    """A question, and not a wish that is worded as one."""
    stems: frozenset[str]
    said: frozenset[str]
    """The things that it names, and the verbs after the first: `search` of `open the search page`."""
    governing: list[str]
    leading: str
    """The stem of its first word that says something, if the lexicon knows nothing of it: `commit`."""
    first: str
    """The stem of its first verb, of whatever request."""
    unknown: frozenset[str]
    """The stems of the verbs that only a tool of its own can know: `rename`."""
    tells: bool
    """It says what somebody did or what became of something, rather than what is to be done."""
    topics: frozenset[str]
    """What it speaks of, in words and in what means about the same."""

    @property
    def action(self) -> Token | None:
        return next((token for token in self.tokens if token.has("do:")), None)

    def actions(self) -> list[str]:
        """The verbs that may govern it: those of the first word that is one, then those of the next."""
        return self.governing


def clause(text: str, now: datetime) -> Clause:
    text = plainly(text)
    unquoted = text
    for (start, end), _ in quoted(text):
        unquoted = unquoted[:start] + '"' * (end - start) + unquoted[end:]
    exact = [replace(one, value=text[one.start : one.end]) if one.kind == "sql" else one for one in literals(unquoted)]
    for one in exact:
        unquoted = unquoted[: one.start] + "_" * (one.end - one.start) + unquoted[one.end :]
    times = times_in(unquoted, now)
    tokens = tuple(tokens_of(text, [(one.start, one.end) for one in (*times.said, *exact)]))
    verbs = [token for token in tokens if token.has("do:")]
    first = next((token for token in tokens if not token.has("fn:")), None)
    said = {one for token in tokens for one in token.means if one.startswith("of:")}
    return Clause(
        text=text,
        tokens=tokens,
        stems=frozenset(stem(word) for token in tokens for word in token.text.casefold().split()),
        said=frozenset(said | {one for token in verbs[1:] for one in token.means if one.startswith("do:")}),
        governing=_governing(tokens),
        leading=first.stem if first and not first.means and first.text.isalpha() else "",
        first=next((token.stem for token in tokens if token.has("do:") or token.has("no:")), ""),
        unknown=frozenset(token.stem for token in tokens if token.has("no:")),
        times=times,
        bounds=tuple(bounds(unquoted)),
        literals=tuple(exact),
        tells=tells(unquoted),
        topics=topics_of(tokens),
        asks=bool(_ASKS.search(unquoted) or _MAY.match(text)) and not _ORDERS.match(text),
    )


def _governing(tokens: Sequence[Token]) -> list[str]:
    """A verb of other requests counts as `other`, unless the thing that is asked for stands before it."""
    found: list[str] = []
    named = False
    for token in tokens:
        named = named or (token.has("of:") and token.text.isascii())
        meant = token.actions() or (("other",) if token.has("no:") and not named else ())
        found += [one for one in meant if one not in found]
    return found


def sentences(message: str) -> list[str]:
    """The sentences of a message; what stands in quotation marks, or is a path or an address, is never cut."""
    most = MOST_TEXT // 2 if is_chinese(message) else MOST_TEXT
    text = _GREETING.sub("", _RUN.sub(lambda run: run.group()[:LONGEST_RUN], plain(message[:most])).strip())
    kept = [*(span for span, _ in quoted(text)), *((one.start, one.end) for one in literals(text))]
    cuts = [found.end() for found in _SENTENCE.finditer(text) if not _inside(found.start(), kept)]
    return [spelt_out(part) for part in _cut(text, cuts) if re.search(r"\w", part)]


def joints(text: str) -> list[tuple[int, int]]:
    """The places where a sentence may fall into two requests, if what follows has a verb of its own."""
    kept = [span for span, _ in quoted(text)]
    return [
        found.span()
        for found in _JOINT.finditer(text)
        if found.end() > found.start() and not _inside(found.start(), kept)
    ][:MOST_JOINTS]


def starts_a_request(text: str, *, any_verb: bool = False) -> bool:
    """Whether it begins with a verb, after at most a few words that say nothing; with `any_verb` one of any request."""
    for token in tokens_of(text)[:6]:
        if token.has("do:") or (any_verb and token.has("no:")):
            return True
        if not (token.has("fn:polite") or token.has("fn:preposition") or token.text in ",，"):
            return False
    return False


def tells(text: str) -> bool:
    """Whether it says what somebody did or what became of something."""
    return bool(_TELLS.search(text))


def _inside(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(start < at < end for start, end in spans)


def _cut(text: str, cuts: list[int]) -> Iterator[str]:
    before = 0
    for cut in (*cuts[: MOST_CLAUSES - 1], len(text)):
        if part := text[before:cut].strip():
            yield part
        before = cut
