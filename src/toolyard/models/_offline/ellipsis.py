"""A sentence as it would be without its short cuts: what was taken back is gone, what was left out is said.

`add milk, no, oat milk` is `add oat milk`; `I called Tom and fed the cat` is `I called Tom and I fed the cat`.
"""

import re

from toolyard.models._offline.amounts import count_at, only_number
from toolyard.models._offline.past import IRREGULAR
from toolyard.models._offline.times import AT_ALL, Said, times_in
from toolyard.models._offline.words import Token, quoted, tokens_of

_TAKEN_BACK = re.compile(
    r"\s*(?:[,;(]|[-–—]|\.{2,})\s*(?:oh |oops,? |hmm,? |ah,? )?"
    r"(?:(?:no|wait|sorry|actually|correction|scratch that|no wait|wait no|no sorry|sorry no)\s*[,:;–—-]+\s*"
    r"(?:i (?:mean|meant|want),?\s+|make (?:it|that)\s+|rather,?\s+)?"
    r"|(?:(?:no|wait|sorry|or|well),?\s+)?(?:i (?:mean|meant)|make (?:it|that)|or rather|rather|better)\b,?\s+)"
    r"|\s*[,，。]\s*(?:哦|啊)?(?:不对|不是|错了|说错了|等等)[,，]\s*(?:应该)?(?:是|改成|要)?\s*",
    re.IGNORECASE,
)
_SWITCHED = re.compile(
    r"\b(?P<verb>turn|switch) (?P<one>[^,]+?) (?P<first>on|off),? and (?P<other>(?!turn|switch)[^,]+?) (?P<then>on|off)"
    r"(?=\W*$)",
    re.IGNORECASE,
)
_ALSO_DID = re.compile(
    rf"^(?P<who>\W*(?:i|we)(?:'ve| have)?) (?:\w+ed|{'|'.join(IRREGULAR)})\b.*?(?P<joint>,? and )"
    rf"(?=(?:\w+ed|{'|'.join(IRREGULAR)}) (?:the|my|our|a|an)\b)",
    re.IGNORECASE,
)
_DID = re.compile(rf"^(?:just |already )?(?=(?!need)(?:\w+ed|{'|'.join(IRREGULAR)}) (?:the|my|our)\b)", re.IGNORECASE)
_INSTEAD = re.compile(
    r"^(?P<lead>.*?)\b(?:replace|swap|exchange) (?P<old>.+?) (?:with|for|by) (?P<new>.+)$", re.IGNORECASE
)
_INSTEAD_ZH = re.compile(r"^(?P<lead>.*?)把(?P<old>[^，。]+?)换成(?P<new>[^，。]+)")
_BETWEEN = re.compile(r"\bbetween\b|从[^到]*$", re.IGNORECASE)


def spelt_out(text: str) -> str:
    text = _corrected(text)
    text = _SWITCHED.sub(r"\g<verb> \g<first> \g<one> and \g<verb> \g<then> \g<other>", text)
    first = next(iter(tokens_of(text)), None)
    if _DID.match(text) and first and not first.has("do:"):
        text = f"I {text[0].lower()}{text[1:]}"
    if found := _ALSO_DID.match(text):
        return f"{text[: found.end('joint')]}{found['who'].strip()} {text[found.end('joint') :]}"
    return text


def carried(left: str, right: str, *, things: bool) -> str:
    """The second of two things with what it shares with the first: `add gym today and tennis tomorrow`.

    Empty if it shares nothing, or if they are two of the same kind, where the first names `things` and no time.
    """
    dated = [times_in(part, AT_ALL).said for part in (left, right)]
    free = times_free(right, dated[1])
    both = all(dated) and any(one.day for one in dated[1])
    tokens, more = tokens_of(left), tokens_of(right)
    if _BETWEEN.search(left) or (things and not both) or bool(dated[1]) != both or not re.search(r"\w", free):
        return ""
    if more[0].has("fn:preposition"):
        shared = [one for one in tokens if one.text.casefold() == more[0].text.casefold()]
        return f"{left[: shared[-1].start]}{right}" if shared else ""
    first = next((one for one in tokens if not one.has("fn:polite")), tokens[0])
    return f"{first.text} {right}" if first.has("do:") else ""


def times_free(text: str, said: tuple[Said, ...]) -> str:
    """A text without what it says about time."""
    for one in reversed(said):
        text = text[: one.start] + text[one.end :]
    return text


def otherwise(text: str) -> str:
    """The same in two steps, for where no tool does it in one: `replace bread with rolls`. Empty if there are none."""
    if found := _INSTEAD.match(text):
        return f"remove {found['old']} and add {found['new']}"
    found = _INSTEAD_ZH.match(text)
    return f"删除{found['old']}，再添加{found['new']}" if found else ""


def _corrected(text: str) -> str:
    """The text with the last thing that was taken back replaced by what follows."""
    found = next((one for one in _TAKEN_BACK.finditer(text) if not _inside(one.start(), text)), None)
    if not found or not re.search(r"\w", text[: found.start()]) or not re.search(r"\w", text[found.end() :]):
        return text
    left, right = text[: found.start()], text[found.end() :]
    if any(token.has("do:") for token in tokens_of(right)[:2]):
        return right
    if (then := times_in(right, AT_ALL).said) and then[0].start == 0:
        return f"{_without(left, then)} {right}"
    return _renamed(left, right)


def _inside(at: int, text: str) -> bool:
    return any(start < at < end for (start, end), _ in quoted(text))


def _without(text: str, then: tuple[Said, ...]) -> str:
    """Without the day, the hour or the month that is said anew."""
    for one in reversed(times_in(text, AT_ALL).said):
        if any((one.day and new.day) or (one.clock and new.clock) or (one.month and new.month) for new in then):
            text = text[: one.start] + text[one.end :]
    return text.rstrip(" ,，")


def _renamed(left: str, right: str) -> str:
    """The last thing that was named gives way to another; how many and where to stay, if nothing is said of them."""
    tokens = tokens_of(left)
    last = _where(tokens)
    where = "" if any(token.has("of:") for token in tokens_of(right)) else left[tokens[last - 1].end :] if last else ""
    first = last
    while first and not _bounds(tokens[first - 1]):
        first -= 1
    start = tokens[first].start if first < last else len(left)
    many = count_at(left[start:])
    if only_number(right.strip(" .!")) is not None and many:
        return f"{left[:start]}{right.strip(' .!')} {left[start + many :]}"
    return f"{left[:start]}{left[start : start + many] if not count_at(right) else ''}{right}{where}"


def _bounds(token: Token) -> bool:
    """Whether a thing that is named ends before it."""
    return (bool(token.kinds & {"do:", "fn:"}) and not token.has("fn:counted")) or token.text in ",，、:："


def _where(tokens: list[Token]) -> int:
    """How many tokens come before `to my cart` at the end."""
    at = len(tokens)
    while at and (tokens[at - 1].has("of:") or tokens[at - 1].has("fn:determiner")):
        at -= 1
    return at - 1 if 1 < at < len(tokens) and tokens[at - 1].has("fn:preposition") else len(tokens)
