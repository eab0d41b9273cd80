"""Small talk: messages that ask for nothing that a tool could do."""

import re
from functools import cache

from toolyard.models._offline.lexicon import entries
from toolyard.models._offline.words import tokens_of

_FILLED = re.compile(r"\b(?:please|toolyard|assistant|my friend|buddy|dear|mate)\b|[呀啊哦哈呢吧~～]", re.IGNORECASE)
_WEIGHTY = ("who", "help", "feeling", "thanks", "never_mind")


def small_talk(message: str) -> str:
    """What kind of small talk the whole message is: greeting, feeling, thanks and so on. Empty if it is more."""
    parts = re.split(r"[.!?,;:。！？，；：)]+", message.replace("’", "'"))
    kinds = [_kinds().get(_bare(part), "") for part in parts if part.strip()]
    if kinds[:1] == ["thanks"] and not any(token.has("do:") or token.has("of:") for token in tokens_of(message)):
        return "thanks"
    if not kinds or "" in kinds:
        return ""
    return next((kind for kind in kinds if kind in _WEIGHTY), kinds[0])


def _bare(part: str) -> str:
    text = " ".join(part.casefold().split())
    return text if text in _kinds() else " ".join(_FILLED.sub(" ", text).split())


@cache
def _kinds() -> dict[str, str]:
    known = [one for one in entries() if one.kind == "ta"]
    return {phrase: one.concept[3:] for one in known for phrase in (*one.english, *one.chinese)}
