"""Tools as classes: an executor describes itself, says who may use it, and runs. `FunctionVenue` calls it."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from toolyard.core.errors import Misconfigured
from toolyard.core.items import Call
from toolyard.core.ports import Context
from toolyard.core.settings.tool_rules import AfterUntrusted, Approval
from toolyard.core.tools.definition import EMPTY_OBJECT, Tool

REQUIRED_ATTRIBUTES = (
    "name",
    "description",
    "parameters",
    "is_enabled",
    "requires_permission",
    "has_permission",
    "execute",
)


@runtime_checkable
class ExecutorLike(Protocol):
    """The attributes that an object needs to be a tool. It may also have those of `RULE_ATTRIBUTES`."""

    # Read-only, so that an attribute of a narrower type fits, such as a dict with values of one type.
    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, object]: ...

    def is_enabled(self) -> bool: ...

    def requires_permission(self) -> bool: ...

    def has_permission(self, role: str) -> bool: ...

    def execute(self, call: Call, context: Context) -> object: ...


class Executor(ABC):
    """A base class for tools: define `name`, `description`, `parameters` and `execute`.

    It is enabled and needs no permission, unless a subclass names `roles` or says otherwise. The attributes mean what
    they mean for `@tool`. `execute` may be async; if it is not, it runs in a thread.
    """

    name: str
    description: str = ""
    parameters: dict[str, object] = dict(EMPTY_OBJECT)  # noqa: RUF012 - read, never written
    title: str = ""
    roles: Collection[str] = ()
    divisions: Collection[str] = ()
    approval: Approval = "never"
    approvers: Collection[str] = ()
    approvals: int = 1
    approval_reason: bool = False
    timeout_s: float = 30.0
    approval_s: float = 86_400.0
    retries: int = 2
    read_only: bool = False
    destructive: bool = False
    open_world: bool = False
    untrusted: bool = False
    after_untrusted: AfterUntrusted | None = None
    idempotent: bool = False
    exclusive: bool = False
    max_result_bytes: int = 16_384
    examples: Collection[str] = ()
    propose: Collection[str] = ()
    says: str | Collection[str] = ()
    sources: Mapping[str, str] = {}
    checks_ok: bool = False

    def is_enabled(self) -> bool:
        return True

    def requires_permission(self) -> bool:
        return bool(self.roles)

    def has_permission(self, role: str) -> bool:
        return role in self.roles

    @abstractmethod
    def execute(self, call: Call, context: Context) -> object:
        """Return the result: anything that can be written as JSON. `call.arguments` fit `parameters`."""


RULE_ATTRIBUTES = tuple(
    name for name in inspect.get_annotations(Executor) if name != "roles" and name not in REQUIRED_ATTRIBUTES
)
"""Attributes of an executor that count if it has them; they mean what they mean for `@tool`."""


def define_tool(executor: ExecutorLike) -> Tool:
    """Return the definition of an executor as a tool. Raise Misconfigured for an attribute of the wrong type."""
    rules = {rule: getattr(executor, rule) for rule in RULE_ATTRIBUTES if hasattr(executor, rule)}
    if isinstance(executor, Executor):
        rules["roles"] = executor.roles
    rules["says"] = list_sentences(rules.get("says"))
    try:
        return msgspec.convert(
            {
                **rules,
                "name": executor.name,
                "description": executor.description,
                "parameters": executor.parameters,
                "own_check": has_own_check(executor),
            },
            Tool,
        )
    except msgspec.ValidationError as error:
        raise Misconfigured(f"executor {type(executor).__name__}: {error}") from None


def list_sentences(says: object) -> object:
    """Return the sentences of `says`, which may be a single one."""
    return (says,) if isinstance(says, str) else says or ()


def has_own_check(executor: ExecutorLike) -> bool:
    """Return whether only the executor itself can say who may use it, and not its `roles`."""
    kind = type(executor)
    if isinstance(executor, Executor) and kind.has_permission is Executor.has_permission:
        return kind.requires_permission is not Executor.requires_permission
    try:
        return executor.requires_permission()
    except Exception:  # fail closed: the authorize hook asks again at each call, and denies if it raises again
        return True
