"""The redaction of results, whose rules may change while runs are open."""

from toolyard.core.settings.redact_rules import NO_REDACTION, RedactRules
from toolyard.core.settings.versions import Versions
from toolyard.core.tools.redactor import Redactor


class Redaction:
    """The redactor of now. A run also keeps what it began with: a pattern that is removed counts until its end."""

    def __init__(self, rules: RedactRules = NO_REDACTION) -> None:
        self._versions = Versions(rules)
        self.current = Redactor(rules)

    def replace(self, rules: RedactRules, now: float) -> bool:
        """Set the rules from now on. Return whether they are others than before."""
        is_changed = self._versions.replace(rules, now)
        if is_changed:
            self.current = Redactor(rules)
        return is_changed

    def find(self, begun_at: float) -> Redactor:
        """Return the redactor of a run."""
        versions = self._versions
        if begun_at >= versions.changed_at:
            return self.current
        return Redactor(versions.current, versions.get_at(begun_at))
