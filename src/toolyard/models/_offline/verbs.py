"""How well what somebody wants done is what a tool does, by their verbs."""

import re

from toolyard.finding.concepts import concepts as alike
from toolyard.finding.concepts import is_plain
from toolyard.models._offline.clauses import Clause
from toolyard.models._offline.lexicon import RELATED
from toolyard.models._offline.profiles import Profile
from toolyard.models._offline.words import is_chinese

_HOW_MANY = re.compile(r"\W*how many\b|.*(?:多少|几)[个封条张件]", re.IGNORECASE)
CHANGING = frozenset({"update", "remove", "cancel"})
"""Verbs that a later one does not soften: who says `delete` does not mean `find`."""


def verb_of(clause: Clause, profile: Profile) -> float:
    """How well the verbs agree; the first one says most."""
    tokens = [token for token in clause.tokens if token.has("do:")]
    agreed = 0.9 if "count" in profile.verbs and _HOW_MANY.match(clause.text) else own_verb(clause, profile)
    if agreed >= 0.9:
        return agreed
    later = (1.0, 0.3, 0.3) if tokens and CHANGING & set(tokens[0].actions()) else (1.0, 0.7, 0.5)
    for token, weight in zip(tokens, later, strict=False):
        agreed = max(agreed, weight * max((_agreement(action, profile) for action in token.actions()), default=0.0))
    return agreed


def own_verb(clause: Clause, profile: Profile) -> float:
    """How much a verb that the lexicon knows nothing of is the tool's own: `commit`, `rename`; less after another."""
    if clause.leading in profile.nouns | profile.verbs:
        return 1.0
    first = clause.first
    if first and any(first in verb for verb in profile.verbs if is_chinese(verb)) and first in clause.unknown:
        return 1.0
    if not clause.unknown & profile.verbs:
        said = {clause.leading, *([first] if first in clause.unknown else []), *_chinese(clause)}
        same = {group for word in said for group in alike(word)}
        return 0.9 if same & {group for verb in profile.verbs if not is_plain(verb) for group in alike(verb)} else 0.0
    return 1.0 if first in profile.verbs else 0.5


def _chinese(clause: Clause) -> list[str]:
    """Words that the lexicon does not know: in Chinese a verb may stand anywhere."""
    return [token.text for token in clause.tokens if not token.means and is_chinese(token.text)]


def _agreement(action: str, profile: Profile) -> float:
    related = [(0.55 - 0.02 * at) * profile.actions.get(other, 0.0) for at, other in enumerate(RELATED.get(action, ()))]
    return max([profile.actions.get(action, 0.0), *related])
