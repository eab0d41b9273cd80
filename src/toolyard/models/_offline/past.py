"""What somebody says to have done, as what was to be done: `I've watered the plants` is `water the plants`."""

import re

IRREGULAR = {
    "paid": "pay", "made": "make", "took": "take", "taken": "take", "did": "do", "done": "do", "wrote": "write",
    "written": "write", "sent": "send", "brought": "bring", "sold": "sell", "told": "tell", "fed": "feed",
    "built": "build", "met": "meet", "read": "read", "put": "put", "cut": "cut", "swept": "sweep", "hung": "hang",
    "drove": "drive", "found": "find", "gave": "give", "went": "go", "left": "leave", "spoke": "speak",
    "spoken": "speak", "rang": "ring", "dug": "dig", "thrown": "throw", "threw": "throw", "driven": "drive",
    "given": "give", "bought": "buy", "got": "get", "had": "have", "saw": "see", "set": "set", "sewn": "sew",
    "shut": "shut", "began": "begin",
}  # fmt: skip
_HAVE = re.compile(
    r"^\W*(?:i|we)(?:'ve|\s+have)?\s+(?:(?:just|already|now|finally)\s+)?(?:finished\s+|am done\s+|'m done\s+)?"
    r"(?P<verb>(?!need)[a-z]+(?:ed|ing)|" + "|".join(IRREGULAR) + r")\b(?P<rest>.*)$",
    re.IGNORECASE,
)
_AT_IT = re.compile(
    r"^\W*(?:i'm|i am|we're|we are)(?:\s+(?:currently|just|now|already|busy|still))*\s+"
    r"(?P<verb>(?!looking|going|having|getting|thinking|asking)[a-z]+ing)(?P<rest>\s+(?:the|my|our)\b.*)$",
    re.IGNORECASE,
)
_IS_DONE = re.compile(
    r"^\W*(?P<what>(?:the|my|our)\s.+?)\s+(?:is|are|has been|have been)\s+"
    r"(?:now\s+|already\s+)?(?P<verb>(?!need|gone\b|empty\b)\w+)\W*$",
    re.IGNORECASE,
)
_ZH_DONE = re.compile(
    r"^(?:我们?)?(?:已经|已|刚刚?)?(?P<verb>[\u3400-\u9fff]{1,2})[了好完]了?(?P<rest>[\u3400-\u9fff]{1,12})$"
)
_ZH_OBJECT = re.compile(
    r"^(?:我们?)?(?:把)?(?P<what>[\u3400-\u9fff]{1,10}?)(?:已经|已|都)?"
    r"(?P<verb>打扫|清理|整理|收拾|交|付|洗|修|浇|寄|换|倒|喂|擦|做|还)[好完]?了$"
)
_ITSELF = re.compile(r"\s+[a-z]+\s+(?:the|my|our|a)\b", re.IGNORECASE)
"""A verb of its own after `did`: `I did water the plants`."""
_VOWEL = re.compile("[aeiouy]")
_TAIL = re.compile(
    r"\s*(?:today|already|now|just now|yesterday|this morning|right now|at the moment)?\W*$", re.IGNORECASE
)


def done(text: str) -> str:
    """What was done, as an order; empty if the text does not say that something was."""
    if found := _HAVE.match(text):
        base, rest = infinitive(found["verb"].casefold()), _TAIL.sub("", found["rest"])
        base = "" if base == "do" and _ITSELF.match(rest) else base or "?"
        return f"{base}{rest}".strip() if base != "?" and rest.strip() else ""
    if found := _IS_DONE.match(text):
        base = infinitive(found["verb"].casefold())
        return f"{base} {found['what'][0].lower()}{found['what'][1:]}" if base else ""
    if found := _ZH_DONE.match(text.strip("。！!. ")):
        return found["verb"] + found["rest"]
    if found := _ZH_OBJECT.match(text.strip("。！!. ")):
        return found["verb"] + found["what"]
    return ""


def doing(text: str) -> str:
    """What somebody says to be at, as an order: `I'm cleaning the garage` is `clean the garage`."""
    found = _AT_IT.match(text)
    base = infinitive(found["verb"].casefold()) if found else ""
    return f"{base}{_TAIL.sub('', found['rest'])}" if found and base else ""


def infinitive(verb: str) -> str:
    """`watered`, `watering` → `water`. Guesses a lost `e` by the letters before it."""
    if verb in IRREGULAR:
        return IRREGULAR[verb]
    if verb.endswith("ied"):
        return verb[:-3] + "y"
    base = verb[:-2] if verb.endswith("ed") else verb[:-3] if verb.endswith("ing") else verb
    if not _VOWEL.search(base) or len(base) < 2:
        return ""
    if len(base) > 3 and base[-1] == base[-2] and base[-1] in "bdgmnprt":
        return base[:-1]
    lost = base[-1] in "vcuz" or base.endswith(
        ("ng", "dg", "rs", "os", "as", "ur", "ir", "ak", "ik", "ok", "uc", "iz", "ol")
    )
    lost = lost or bool(re.search(r"[^aeiou][aeiou](?:s|t)$", base) and base.endswith(("at", "ot", "us", "is")))
    return base + "e" if lost and not base.endswith(("ook", "eak", "eat", "oat", "air", "our", "ing")) else base
