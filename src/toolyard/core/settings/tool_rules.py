"""The rules for tools, as the configuration file and the store set them. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from toolyard.core.settings.types import CallPrice, Count, CountOrZero, Name, Seconds

Approval = Literal["never", "ask", "always", "other"]
AfterUntrusted = Literal["allow", "ask", "deny"]
APPROVER_KINDS = ("role:", "user:")
MAX_QUORUM = 20


class TrustRules(Struct, frozen=True, kw_only=True):
    """What a call that is destructive or open-world meets after untrusted content, unless its tool says otherwise."""

    after_untrusted: AfterUntrusted = "ask"
    by_role: dict[Name, AfterUntrusted] = {}
    """For callers with a role; of several roles the strictest counts."""
    trust_client_results: bool = False
    """Whether the results that applications send for their own tools are trusted."""
    trust_client_history: bool = True
    """Whether the texts of a model are trusted in a history that an application sends."""


DEFAULT_TRUST = TrustRules()


class ToolRules(Struct, frozen=True, kw_only=True):
    """Rules for one tool of any venue; where a rule is None, the tool's own value stays."""

    enabled: bool | None = None
    roles: frozenset[Name] | None = None
    divisions: frozenset[Name] | None = None
    approval: Approval | None = None
    approvers: tuple[Name, ...] | None = None
    approvals: Count | None = None
    approval_reason: bool | None = None
    timeout_s: Seconds | None = None
    approval_s: Seconds | None = None
    client_s: Seconds | None = None
    retries: CountOrZero | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    open_world: bool | None = None
    untrusted: bool | None = None
    after_untrusted: AfterUntrusted | None = None
    idempotent: bool | None = None
    exclusive: bool | None = None
    max_result_bytes: Count | None = None
    price: CallPrice | None = None
    """What a call costs, in US dollars."""
    examples: tuple[Name, ...] | None = None
    propose: tuple[Name, ...] | None = None
    """Further examples that are statements: the offline model asks before it runs a call for one."""

    def iter_problems(self) -> Iterator[tuple[str, str]]:
        if self.read_only and self.destructive:
            yield "read_only", "and destructive: a tool that changes nothing destroys nothing; set one of them"
        yield from iter_term_problems(self.approval, self.approvers, self.approvals)


def iter_term_problems(
    approval: str | None, approvers: Sequence[str] | None, approvals: int | None
) -> Iterator[tuple[str, str]]:
    """Yield each setting of an approval that is wrong, and why."""
    for entry in approvers or ():
        if not entry.startswith(APPROVER_KINDS) or len(entry) <= len(APPROVER_KINDS[0]):
            yield "approvers", f"has {entry[:80]!r}: name a role as role:NAME or a user as user:NAME"
    if approvals is not None and not 1 <= approvals <= MAX_QUORUM:
        yield "approvals", f"must be from 1 to {MAX_QUORUM}"
    if approval == "never" and (approvers or (approvals or 1) > 1):
        yield "approval", 'is "never", but approvers or approvals are set: nobody would be asked'
