"""What stands around the thing that is wanted: the verb, the small words, the words for what a tool is about."""

from toolyard.models._offline.lexicon import RELATED
from toolyard.models._offline.profiles import Profile, filter_beside, topics_of
from toolyard.models._offline.sheet import Sheet
from toolyard.models._offline.words import Token, is_chinese

_LOOSE = ("fn:here", "fn:attribute", "fn:polite", "fn:determiner", "fn:preposition", "fn:question", "fn:and")

_END = frozenset("?？!！.。…")
MOST_SMALL = 8
"""Small words in a row that are looked at together."""


def framed(sheet: Sheet, profile: Profile) -> list[Token]:
    """The free tokens without the verb that governs them and without the phrases that name the tool's own thing."""
    tokens = [token for token in sheet.tokens() if token.text not in _END]
    kept: list[Token] = []
    dated = profile.of_kind("moment") is not None and sheet.clause.times.moment() is not None
    at, acted = 0, False
    while at < len(tokens):
        token = tokens[at]
        length = _phrase_length(tokens, at, profile)
        if length:
            at += length
            continue
        own = token.has("no:") and any(token.stem in verb for verb in profile.verbs)
        if not acted and (own or (token.has("do:") and not _belongs(token, kept, profile, dated=dated))):
            acted = True
        else:
            kept.append(token)
        at += 1
    return kept


def _belongs(token: Token, before: list[Token], profile: Profile, *, dated: bool) -> bool:
    """Whether a verb is part of what is asked for: of a title, `see the dentist`, or a thing that is called so."""
    if _governs(token, profile):
        return False
    inside = profile.titled and token.text != "去" and (dated or any(not one.has("fn:") for one in before))
    return token.has("of:") or inside


def _governs(token: Token, profile: Profile) -> bool:
    meant = {other for action in token.actions() for other in (action, *RELATED.get(action, ()))}
    return bool(meant & profile.actions.keys())


def _phrase_length(tokens: list[Token], at: int, profile: Profile) -> int:
    """How many tokens from here are `to my shopping cart`, `从购物车里`: a small word and the tool's own thing."""
    start = at
    if not tokens[at].has("fn:preposition"):
        return 0
    while at < min(len(tokens), start + MOST_SMALL) and (
        tokens[at].has("fn:preposition") or tokens[at].has("fn:determiner")
    ):
        at += 1
    things = at
    while at < len(tokens) and (
        _is_own(tokens[at], profile)
        or (things > start + 1 and _searched(tokens[at], profile))
        or tokens[at].text.casefold() == "'s"
    ):
        at += 1
    if at == things:
        return 0
    while at < len(tokens) and is_chinese(tokens[at].text) and tokens[at].has("fn:preposition"):
        at += 1
    return at - start


def _is_own(token: Token, profile: Profile) -> bool:
    """Whether it is a word for what the tool is about rather than for what is wanted of it."""
    if token.start and token.text[:1].isupper() and not token.text.isupper():
        return False
    known = token.means & (profile.things | profile.place_words) or token.stem in profile.nouns | profile.place_words
    return bool(known) or bool(topics_of([token]) & profile.own) or _container(token, profile)


def _searched(token: Token, profile: Profile) -> bool:
    """Whether it says where a tool looks, as its description does: `in the knowledge graph`."""
    known = profile.reads and token.text.isascii() and token.stem in profile.words
    return known and not any(token.stem in example for example in profile.examples)


def _container(token: Token, profile: Profile) -> bool:
    """A list, a calendar: what holds the things that a tool adds."""
    return bool(token.means & {"of:list", "of:calendar", "of:page"}) and not (
        profile.reads and "of:list" in token.means
    )


def bare(tokens: list[Token], profile: Profile, *, own: bool | None) -> list[Token]:
    """Without what says nothing at either end; with `own` also without the tool's own words there.

    Where `own` is None they all stay; where it is False only those that lead to a title go: `task` of `add task …`.
    """
    titled = profile.titled and not (own and filter_beside(profile))
    first, last = 0, len(tokens)
    seen_own = False
    while first < last:
        token = tokens[first]
        if _is_own(token, profile) and not (seen_own and titled) and token.text.casefold() != "new":
            if own is None or (not own and not titled):
                break
            seen_own = True
        elif not (
            _loose_start(token, titled, seen_own)
            or _more_frame(token, profile, titled)
            or (own and _own_word(token, profile))
        ):
            break
        first += 1
    while last > first:
        token = tokens[last - 1]
        if token.text in ("up", "in", "out", "off", "on") and last - first > 1 and tokens[last - 2].text[0].isupper():
            break
        ours = own and (_is_own(token, profile) or _own_word(token, profile))
        ours = ours or (not titled and token.has("do:") and _governs(token, profile) and last - first > 1)
        if not (_loose_end(token, titled) or ours):
            break
        last -= 1
    return tokens[first:last]


def _more_frame(token: Token, profile: Profile, titled: bool) -> bool:
    """A second verb of the same kind: `new` of `add a new task`, `还有没有` of `看看还有没有`."""
    if token.has("do:create") and token.text.casefold() == "new":
        return True
    return not titled and token.has("do:") and not token.has("of:") and _governs(token, profile)


def _loose_start(token: Token, titled: bool, seen_own: bool) -> bool:
    """A title in Chinese may begin with a small word, `去银行`, but not with the end of `日历里`."""
    if seen_own and token.text in ("里", "里面", "上", "中", "内", "里边"):
        return True
    verbal = (
        titled
        and is_chinese(token.text)
        and (token.has("fn:preposition") or token.has("fn:and"))
        and token.text not in ("把", "为", "叫", "关于")
    )
    return _loose(token) and not verbal


def _loose_end(token: Token, titled: bool) -> bool:
    """At the end only what cannot end a name."""
    if is_chinese(token.text) and len(token.text) == 1:
        return token.text in ("吗呢吧啊哦" if titled else "吗呢吧啊哦了的里上中在都也")
    return _loose(token)


def _loose(token: Token) -> bool:
    if token.has("fn:pronoun") or token.has("fn:everything") or token.has("fn:something"):
        return False
    return (token.has("fn:") and any(token.has(kind) for kind in _LOOSE)) or token.text in ",，:：-–'\"“”、"


def _own_word(token: Token, profile: Profile) -> bool:
    """A Chinese word that the tool's own description uses: `编号` of `编号M003`."""
    return is_chinese(token.text) and len(token.text) > 1 and any(token.text in place.said for place in profile.places)
