"""A message becomes clauses: one for each thing that is asked for, with what is said in it about time and bounds."""

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from toolyard.finding.words import stem
from toolyard.models._offline.amounts import NUMBER, Bound, bounds
from toolyard.models._offline.past import IRREGULAR
from toolyard.models._offline.times import MONTHS, Times, times_in
from toolyard.models._offline.words import Token, plain, quoted, tokens_of

MOST_CLAUSES = 12
MOST_TEXT = 2000
_SENTENCE = re.compile(r"(?<=[!?;。！？；\n])\s*|(?<=[a-z)\"'\u3400-\u9fff]{2}\.)\s+(?=[A-Z\"'])")
_JOINT = re.compile(
    r"\s*(?:,\s*)?\b(?:and then|and also|then|and|but|also|plus)\b\s+"
    r"|\s*[,，]\s*(?:然后|并且|接着|另外|再|顺便|还要?|同时|并)?\s*|(?:然后|并且|接着|同时|顺便)\s*"
    r"|,\s+(?=(?:please|could|can|would)\b)"
)
_ASKS = re.compile(
    r"^\W*(?:what|which|who|when|where|why|how|is|are|am|was|were|do|does|did|have you|has|should|may i ask|any)\b"
    r"|吗|呢[?？]?$|什么|多少|有没有|有无|是否|怎么|哪|几|谁|为何",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"^\W*(?:i|we)(?:'ve|\s+have|'m|\s+am|'re|\s+are)?(?:\s+(?:just|already|now|finally))*\s+"
    r"(?:done\b|working on\b|busy with\b|(?!need|indeed)"
    rf"(?:\w+ed|{'|'.join(IRREGULAR)})\b)"
    r"|^(?:the|my|our)\b.+\b(?:is|are|has been|have been)\s+(?!need)\w+(?:ed|aid|ent|ilt|one)\W*$"
    r"|^[^?]+\b(?:has|have) (?:just |already )?been\s+\w+(?: up| off)?\W*$"
    r"|^(?:我们?)?(?:已经|刚刚?)|^(?!不要|不用|别).*了[。！!]?$",
    re.IGNORECASE,
)
_REWRITTEN = tuple(
    (re.compile(pattern, re.IGNORECASE), said)
    for pattern, said in (
        (r"^\W*(?:(?:i (?:think|guess|believe|suppose)|it (?:looks|seems) like|(?:can|could) you make sure|(?:please )?make sure|"
         r"i was wondering if|i wonder if|by the way|btw|um+|uh+|hm+),? (?:that )?)+(?:you (?:could|can) )?", ""),
        (r"\s*\b(?:currently|right now|at the moment|at present)\b(?=.*[?]|.*\w)", ""),
        (r"^(?:is|are) there (?:any |some )?\w.* in (?P<where>(?:my|our) \w+(?: \w+)?)\s*\?$", r"what is in \g<where>?"),
        (r"^(?:tell me |do you know )?how much (?P<what>(?!is\b|are\b|do\b|does\b|did\b|have\b|we\b|i\b).+?) costs?\W*$",
         r"find \g<what>"),
        (r"^(?P<what>[^，。]{1,12}?)(?:多少钱|怎么卖)(?:一[块个瓶袋盒包斤份])?[？?]?$", r"查找\g<what>"),
        (r"(?<=[A-Za-z\d]\d)号", ""),
        (r"(?P<when>之前|以前|前)(?:我们?)?(?:要|得|必须|需要)", r"\g<when>提醒我"),
        (r"\b(?:something|anything|stuff) (?:with|like|containing|made of) ", ""),
        (r"^how much (?:money )?(?:went|goes|has gone) (?:to|on|for|into|towards) ", "how much did we spend on "),
        (r"\b(?:almost|nearly|completely|totally|just about|all) (?=out of\b|finished\b)", ""),
        (r"^(?:please )?don't forget (?:about )?(?!to\b|that\b)(?P<what>.+?)(?: when (?:you (?:go|are|do)|we go|shopping).*)?$",
         r"need \g<what>"),
        (r"\b(?P<verb>remind (?:me|us)) (?:that )?(?:i|we) (?:must|have to|need to|should|ought to)\b", r"\g<verb> to"),
        (r"^(?:please )?book (?:in )?(?=(?:a|an|the|my|our|us|me)\b.*(?:\bat \d|\d:\d\d|\d ?[ap]m\b|\bfrom \d|noon))", "schedule "),
        (r"^(?:we're|we are|i'm|i am) (?:having|throwing|hosting) (?=.*\b(?:at|from) \d|.*\d ?[ap]m)", "schedule "),
        (r"\b(?P<verb>tick|check|cross) (?P<what>(?:\w+ ){1,5}?)off (?:of )?(?=(?:the|my|our)\b)", r"\g<verb> off \g<what>on "),
        (rf"^(?P<what>(?:half a dozen|a dozen|a couple of|{NUMBER})\s+(?!(?:am|pm|o'clock|days?|hours?|minutes?|weeks?|months?|"
         rf"times|euros?|dollars?|percent|{MONTHS})\b)[a-z][a-z -]+(?:(?:,| and|, and) (?:{NUMBER}|an?|some)\s+[a-z][a-z -]+)*)"
         r"(?:,? (?:please|thanks))?[.!]?$", r"need \g<what>"),
        (r"^(?:我们?|家里|咱们)*(?:已经|快)?没有?(?P<what>[^吗么？?]{1,12}?)了[。！!]?$", r"需要\g<what>"),
        (r"(?<![没还里])有(?P<what>[^没什么哪多几货]{1,12}?)(?:吗|么)[？?]?$", r"有没有\g<what>"),
        (r"(?<=多少)(?:公斤|千克|kg|升|瓶|袋|个|斤|吨|箱|件|盒|包)", ""),
        (r"(?P<verb>查询?|查找|查一?下|查询一?下|看一?下|看看|搜索?|找一?下?)(?P<what>[^各所全总类，。]{1,12}?)的(?:库存量?|数量|存量|余量|价格)$",
         r"\g<verb>\g<what>"),
        (r"^我们?(?:想要(?![查找看去打买付结])|要(?=[一二两三四五六七八九十半\d]))", "需要"),
        (r"^(?:is|are) (?P<what>(?!there\b|you\b|it\b).+?) (?:still )?(?:available|in stock|on sale|left)\s*\??$",
         r"find \g<what>"),
        (r"^(?P<what>[^各所全总类]{1,12}?)的?(?:库存|数量|存量|余量|价格|价钱|售价)"
         r"(?:是|有|还有|还剩|剩|还剩下)?(?:多少|几[^，。]{0,3})[？?]?$", r"查找\g<what>"),
        (r"^how (?:much|expensive) (?:does|do|is|are) (?P<what>(?!in\b|left\b|there\b|it\b|my\b|our\b).+?)"
         r"(?: cost| sell for)?\s*\??$", r"find \g<what>"),
        (r"^(?:please )?(?:empty|clear)(?: out)? (?P<what>(?:my|the|our) [\w ]+)$", r"remove everything from \g<what>"),
        (r"^(?:请|帮我|麻烦)*(?:清空|把(?=.+清空))(?P<what>[^，。]+?)(?:清空)?[。！!]?$", r"移除\g<what>里的全部"),
        (r"^(?:家里的?|我们的?)?(?P<what>[^，。]{1,12}?)(?:都|快要?|已经)*(?:(?:吃|喝|用)(?:完|光)|没|没有|不够)了[。！!]?$",
         r"需要\g<what>"),
        (r"^(?:编号|代码)?(?P<what>[A-Za-z]{1,5}-?\d{2,})(?:是|为)(?:什么|哪)[^，。]{0,6}$", r"查找\g<what>"),
        (r"^what(?:'s| is) (?P<what>[A-Z]{1,5}-?\d{2,})\s*\??$", r"find \g<what>"),
        (r"^how (?:much|many) (?:(?:kg|kilos?|kilograms?|litres?|liters?|units?|bags?|boxes|bottles?|packs?) of )?"
         r"(?P<what>(?!of\b|money\b|is\b|are\b|did\b|do\b|have\b|in\b).+?) "
         r"(?:is|are|do (?:we|you|i)(?: still)? have|have (?:we|you|i)(?: still)?(?: got)?)(?: there)?(?: still)?"
         r"(?: left| available| in stock| remaining| in the warehouse| on hand)*\s*\??$", r"find \g<what>"),
        (r"^what(?:'s| is) the (?:current )?(?:stock|inventory|quantity|amount)(?: level)? (?:of|for) (?P<what>.+)$",
         r"find \g<what>"),
        (r"\b(?P<verb>turn|switch|tick|check|cross|shut)\s+(?P<what>(?:\w+\s+){1,5}?)(?P<way>on|off)\b(?!\s+(?:the|my|our)\b)",
         r"\g<verb> \g<way> \g<what>"),
    )
)  # fmt: skip
"""Ways of asking whose order hides what is meant, and the plain order."""
_GREETING = re.compile(
    r"^\W*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening)|你好|您好|早上好|下午好|晚上好|嗨"
    r"|great|perfect|nice|cool|ok(?:ay)?|alright|thanks|thank you|yes|yeah|sure|好的?|行|谢谢|太好了)"
    r"(?: there| again)?\s*[,，!！.。~]+\s*(?=\S))+",
    re.IGNORECASE,
)
_ORDERS = re.compile(r"^\W*(?:could|can|would|will|may)\b", re.IGNORECASE)


class Clause(Struct, frozen=True, kw_only=True):
    text: str
    tokens: tuple[Token, ...]
    times: Times
    bounds: tuple[Bound, ...]
    asks: bool
    """A question, and not a wish that is worded as one."""
    stems: frozenset[str]
    said: frozenset[str]
    """The things that it names, and the verbs after the first: `search` of `open the search page`."""
    tells: bool
    """It says what somebody did or what became of something, rather than what is to be done."""

    @property
    def action(self) -> Token | None:
        return next((token for token in self.tokens if token.has("do:")), None)

    def actions(self) -> list[str]:
        """The verbs that may govern it: those of the first word that is one, then those of the next.

        A verb of other requests counts as `other`, unless the thing that is asked for stands before it.
        """
        found: list[str] = []
        named = False
        for token in self.tokens:
            named = named or (token.has("of:") and token.text.isascii())
            meant = token.actions() or (["other"] if token.has("no:") and not named else [])
            found += [one for one in meant if one not in found]
        return found


def clause(text: str, now: datetime) -> Clause:
    for pattern, said in _REWRITTEN:
        text = pattern.sub(said, text)
    unquoted = text
    for (start, end), _ in quoted(text):
        unquoted = unquoted[:start] + '"' * (end - start) + unquoted[end:]
    times = times_in(unquoted, now)
    tokens = tuple(tokens_of(text, [(one.start, one.end) for one in times.said]))
    verbs = [token for token in tokens if token.has("do:")]
    said = {one for token in tokens for one in token.means if one.startswith("of:")}
    return Clause(
        text=text,
        tokens=tokens,
        stems=frozenset(stem(word) for token in tokens for word in token.text.casefold().split()),
        said=frozenset(said | {one for token in verbs[1:] for one in token.means if one.startswith("do:")}),
        times=times,
        bounds=tuple(bounds(unquoted)),
        tells=bool(_TELLS.search(unquoted)),
        asks=bool(_ASKS.search(unquoted)) and not _ORDERS.match(text),
    )


def sentences(message: str) -> list[str]:
    """The sentences of a message; what stands in quotation marks is never cut."""
    text = _GREETING.sub("", plain(message[:MOST_TEXT]).strip())
    kept = [span for span, _ in quoted(text)]
    cuts = [found.end() for found in _SENTENCE.finditer(text) if not _inside(found.start(), kept)]
    return [part for part in _cut(text, cuts) if re.search(r"\w", part)]


def joints(text: str) -> list[tuple[int, int]]:
    """The places where a sentence may fall into two requests, if what follows has a verb of its own."""
    kept = [span for span, _ in quoted(text)]
    return [
        found.span()
        for found in _JOINT.finditer(text)
        if found.end() > found.start() and not _inside(found.start(), kept)
    ]


def starts_a_request(text: str) -> bool:
    """Whether it begins with a verb, after at most a few words that say nothing."""
    for token in tokens_of(text)[:6]:
        if token.has("do:"):
            return True
        if not (token.has("fn:polite") or token.has("fn:preposition") or token.text in ",，"):
            return False
    return False


def _inside(at: int, spans: list[tuple[int, int]]) -> bool:
    return any(start < at < end for start, end in spans)


def _cut(text: str, cuts: list[int]) -> Iterator[str]:
    before = 0
    for cut in (*cuts[: MOST_CLAUSES - 1], len(text)):
        if part := text[before:cut].strip():
            yield part
        before = cut
