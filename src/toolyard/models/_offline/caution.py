"""When a tool that changes something must not be run, however well it fits: rather a question too many.

What is negated, excepted, made conditional, put off, only told or only asked is no order.
"""

import re

from toolyard.finding.words import stem
from toolyard.models._offline.choices import ends
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.evidence import WISH
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.rest import Filled

_NOT = re.compile(
    r"\b(?:don't|do not|dont|never|no need to|(?:should|must|need|would|could)(?:n't| not)|not to|instead of|rather "
    r"than)\b"
    r"(?!,? (?:forget|let|want|need|have|like|mind|worry|hesitate)\b)|\bstop \w+ing\b|\bno,? (?:don't|not)\b"
    r"|\bdon't (?:want|need|like) (?:you|it|them|anyone|anybody|the \w+) to\b"
    r"|(?:别|不要|不用|不想|不必|无需|勿|甭)"
    r"(?=再?(?:取消|删|关|开|转|发|买|加|放|改|锁|订|退|送|打|停|启|重|清|移|付|交|通知|把|给|去))",
    re.IGNORECASE,
)
_EXCEPT = re.compile(
    r"\b(?:except|besides|apart from|other than|but not|but keep|but leave|excluding|unless)\b|除了|除.{1,8}[之以]外"
    r"|\b(?:all|every\w*|any\w*)\b[^,;]{0,40}\bbut\b",
    re.IGNORECASE,
)
_IF = re.compile(
    r"\b(?:if|when|whenever|once|as soon as|in case|after|before|until) "
    r"(?:i|we|you|he|she|it|they|the|my|our|nobody|someone)\b"
    r"|如果|要是|假如|一旦|的时候",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\bin (?:an?|half an|a few|\d+|one|two|three|five|ten) (?:seconds?|minutes?|mins?|hours?)\b|\blater\b"
    r"|(?:分钟|小时|一会儿?|稍)后|等会",
    re.IGNORECASE,
)
_STATES = re.compile(
    r"^\W*(?:(?i:the|my|our|his|her|their|this|that|it|there|someone|everyone|he|she|they)\b"
    r"|[A-Z][\w'-]*(?: [A-Z][\w'-]*)? )"
    r"[^,;:?]*?(?<!that )(?<!which )(?<!who )"
    r"\b(?:is|are|was|were|isn't|aren't|wasn't|went|has|had|did|got|would|could|might|said|says|(?P<past>\w{3,}ed))\b"
    r"|^(?:他|她|它|有人|我老[公婆]).*了$|.*是.{1,4}的$",
)
_VAGUE = re.compile(
    r"\bhalf of\b|(?:%|\bpercent) of\b|\d\S*(?: [a-z]+)? or \d|调高|调低|升高|降低"
    r"|\bby (?:\d+|an?|two) ?(?:degrees?|%|percent|points?|notch)"
    r"|\b(?:warmer|cooler|hotter|colder|higher|lower(?! (?:the|my|our|it)\b)|louder|quieter|brighter|darker)\b",
    re.IGNORECASE,
)
"""So much is said that it cannot be taken as it is: a half, one of two, more than now."""
_OPPOSITES = (
    "open close",
    "lock unlock",
    "start stop",
    "enable disable",
    "block unblock",
    "mute unmute",
    "add remove",
    "subscribe unsubscribe",
    "install uninstall",
    "approve reject",
    "accept decline",
    "buy sell",
    "show hide",
)
_ORDERED = re.compile("把|不要|不用|请|帮")
"""`把灯关了` is an order, `我关了灯` is none."""
_RECORDS = frozenset(
    map(stem, ["log", "record", "report", "note", "register", "track", "add", "create", "save", "schedule"])
)
"""What is done with something that is only told: it is put down."""
_DATED = ("day", "moment", "month", "clock")
LEAST_VERB = 0.45


def held_back(clause: Clause, profile: Profile, filled: Filled, verb: float) -> bool:
    if profile.reads:
        return False
    said = _without_texts(clause, profile, filled)
    if clause.asks or any(pattern.search(said) for pattern in (_NOT, _EXCEPT, _IF, _VAGUE)):
        return True
    if _unspoken(clause, profile, filled, verb) or _opposed(clause, profile):
        return True
    if _left_over(clause, profile, filled):
        return True
    reminded = clause.actions()[:1] == ["remind"] and "remind" not in profile.actions and not profile.titled
    return reminded or _only_told(clause, profile, said, verb) or _put_off(clause, profile)


def _left_over(clause: Clause, profile: Profile, filled: Filled) -> bool:
    """Whether something was written exactly that a tool takes, and has no place: a third file where there are two."""
    kinds = {place.written for place in profile.places if place.written}
    items = [item.text for item in filled.items] if profile.main else []
    placed = str((filled.values, filled.others, items))
    return any(one.kind in kinds and one.value not in placed for one in clause.literals)


def conditional(text: str) -> bool:
    """Whether what follows is to be done only then: `when I leave, …`."""
    return _IF.search(text) is not None


def _unspoken(clause: Clause, profile: Profile, filled: Filled, verb: float) -> bool:
    """Whether no verb speaks for it, and nothing else that says what is to be done: a time, a switch, a status."""
    if not any(place.required for place in profile.places):
        return verb < LEAST_VERB or not (clause.actions() or clause.leading in profile.verbs)
    kinds = {place.kind for place in profile.places if place.name in filled.values}
    said = (
        filled.exemplary
        or filled.chosen == "firmly"
        or WISH.match(clause.text)
        or kinds & {"moment", "flag"}
        or profile.verbs & _RECORDS
    )
    return not verb and not said and not _has_status(profile) and len(filled.values) < 2


def _opposed(clause: Clause, profile: Profile) -> bool:
    """Whether the opposite of what it does was said, and not that itself: `close` of one that opens."""
    words = profile.tool.name.casefold().split("_")
    text = clause.text.casefold()
    for pair in _OPPOSITES:
        for own, other in (pair.split(), pair.split()[::-1]):
            if own in words[:2] and re.search(rf"\b{other}", text) and not re.search(rf"\b{own}", text):
                return True
    return False


def _without_texts(clause: Clause, profile: Profile, filled: Filled) -> str:
    """What is said to us: not what is to be written, and not a title, which may hold any word."""
    texts = [value for value in filled.values.values() if isinstance(value, str) and " " in value]
    titled = profile.titled and bool(profile.verbs & _RECORDS or profile.actions.keys() & {"add", "create", "remind"})
    texts += [item.text for item in filled.items if item.quoted or titled]
    said = clause.text
    for text in texts:
        said = said.replace(text, " ")
    return said


def _only_told(clause: Clause, profile: Profile, said: str, verb: float) -> bool:
    if profile.verbs & _RECORDS or ends(profile) or _has_status(profile):
        return False
    told = clause.tells and not _ORDERED.search(said)
    states = _STATES.match(said)
    ordered = verb and clause.tokens[0].has("do:") and states and states["past"]
    return told or (states is not None and not ordered)


def _put_off(clause: Clause, profile: Profile) -> bool:
    """A time of day is said, and there is no place for it: it would be done now."""
    later = clause.times.moment() is not None or _LATER.search(clause.text) is not None
    takes = any(place.kind in _DATED or place.kind == "number" for place in profile.places)
    return later and not takes and not clause.tells and not profile.titled


def _has_status(profile: Profile) -> bool:
    return any(place.kind == "choice" and "stat" in place.name for place in profile.places)
