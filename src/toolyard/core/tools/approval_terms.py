"""Who may decide a call, how many approvals it takes and until when. Data, and the checks on it. Pure."""

import re
from collections.abc import Iterable
from unicodedata import normalize

from msgspec import Struct

from toolyard.core.caller import Caller
from toolyard.core.settings.texts import NO_TEXTS, CustomTexts, fill_text, get_text

_IGNORABLE = re.compile(
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point, which `unicodedata` does not have: characters that show nothing."""


class ApprovalTerms(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What a decision on a call takes, if it takes more than the word of the owner or of an approver."""

    other: bool = False
    """Whether the caller who asked for the call may not decide it: four eyes."""
    approvers: tuple[str, ...] = ()
    """Who of the tenant may decide: `role:NAME` or `user:NAME`. Empty means the owner and the role approver."""
    quorum: int = 1
    """How many people have to approve the call. One denial denies it."""
    reason_required: bool = False
    """Whether each decision has to give a reason."""
    within_s: float | None = None
    """How long the call waits for its decision; None means the tool's `approval_s`."""

    @property
    def involves_others(self) -> bool:
        """Return whether somebody else than the caller who asked has a say."""
        return self.other or bool(self.approvers) or self.quorum > 1

    def names(self, caller: Caller) -> bool:
        """Return whether the list of approvers names this caller."""
        named = {f"user:{caller.user}", *(f"role:{role}" for role in caller.roles)}
        return not named.isdisjoint(self.approvers)

    def find_refusal(self, by: Caller, owner: Caller, asker: Caller) -> str:
        """Return why this caller may not decide a call; empty if they may."""
        if by.tenant != owner.tenant:
            return f"{by.user!r} may not decide this call: it belongs to another tenant"
        # The owner is excluded as well: whoever else may start a run in their conversation does so for them.
        if self.other and is_same_person(by.user, (asker.user, owner.user)):
            return f"{by.user!r} asked for this call, and somebody else has to decide it: {self.describe_approvers()}"
        if self.names(by) if self.approvers else by.may_decide_for(owner):
            return ""
        return f"{by.user!r} may not decide this call: that is for {self.describe_approvers()}"

    def describe_approvers(self, language: str = "", texts: CustomTexts = NO_TEXTS) -> str:
        """Return who may decide, in words."""
        if not self.approvers:
            return get_text("approver_other", language, texts) if self.other else "the owner or the role approver"
        words = [_describe_approver(entry, language, texts) for entry in self.approvers]
        if len(words) == 1:
            return words[0]
        return fill_text(get_text("approver_list", language, texts), first=", ".join(words[:-1]), last=words[-1])


def _describe_approver(entry: str, language: str, texts: CustomTexts) -> str:
    kind, _, name = entry.partition(":")
    return fill_text(get_text("approver_role" if kind == "role" else "approver_user", language, texts), name=name)


def is_same_person(user: str, others: Iterable[str]) -> bool:
    """Return whether a user's name is one of `others`, all of one tenant.

    Case, Unicode form and invisible characters make no difference: identity providers and programs write one
    name in several ways, and one person must not count as two.
    """
    return _fold_name(user) in map(_fold_name, others)


def _fold_name(user: str) -> str:
    visible = _IGNORABLE.sub("", normalize("NFKC", user).casefold())
    # Letters that an invisible character had kept apart may now be composed.
    return normalize("NFKC", visible).casefold().strip()
