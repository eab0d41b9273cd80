"""The ports of a store: small protocols, and `Store`, which combines them."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from toolyard.core.store.access import SESSION, SHARE, AccessToken, AccessTokens, Allowance, Key, Keys, Limiter
from toolyard.core.store.audit_chain import AuditEntry
from toolyard.core.store.catalog import (
    KEPT,
    LISTED,
    CardPlace,
    Catalog,
    CatalogQuery,
    ConversationCard,
    ListPosition,
    OpenCounts,
    RequestRecord,
    find_place,
)
from toolyard.core.store.ledger import (
    BudgetBalance,
    BudgetCharge,
    BudgetShare,
    Ledger,
    Reservation,
    Settlement,
    UsageQuery,
    UsageRow,
)
from toolyard.core.store.log import (
    Append,
    Blobs,
    CommandAnswer,
    FutureLike,
    Log,
    LogHead,
    SnapshotHead,
    Snapshots,
    SnapshotUpdate,
)
from toolyard.core.store.ownership import (
    LOG_FORMAT,
    MAX_DEATHS,
    MAX_FORWARDED,
    MAX_MESSAGE_BYTES,
    PROGRAM_FORMAT,
    SUSPECT_DEATHS,
    Bus,
    Claim,
    Claims,
    Followers,
    ForwardedCommand,
    ForwardedCommands,
    OwnedElsewhere,
    Sharing,
)
from toolyard.core.store.records import (
    KEYS,
    AuditedKeyValue,
    AuditLog,
    FigureRow,
    Figures,
    KeyValue,
    RecordChange,
    SharedKeyValue,
)

__all__ = [
    "KEPT",
    "KEYS",
    "LISTED",
    "LOG_FORMAT",
    "MAX_DEATHS",
    "MAX_FORWARDED",
    "MAX_MESSAGE_BYTES",
    "PROGRAM_FORMAT",
    "SESSION",
    "SHARE",
    "SUSPECT_DEATHS",
    "AccessToken",
    "AccessTokens",
    "Allowance",
    "Append",
    "AuditLog",
    "AuditedKeyValue",
    "Blobs",
    "BudgetBalance",
    "BudgetCharge",
    "BudgetShare",
    "Bus",
    "CardPlace",
    "Catalog",
    "CatalogQuery",
    "Claim",
    "Claims",
    "CommandAnswer",
    "ConversationCard",
    "CopyableStore",
    "Export",
    "FigureRow",
    "Figures",
    "Followers",
    "ForwardedCommand",
    "ForwardedCommands",
    "FutureLike",
    "Key",
    "KeyValue",
    "Keys",
    "Ledger",
    "Limiter",
    "ListPosition",
    "Log",
    "LogHead",
    "OpenCounts",
    "OwnedElsewhere",
    "RecordChange",
    "RequestRecord",
    "Reservation",
    "Settlement",
    "SharedKeyValue",
    "Sharing",
    "SnapshotHead",
    "SnapshotUpdate",
    "Snapshots",
    "Store",
    "UsageQuery",
    "UsageRow",
    "find_place",
]


class Store(
    Log,
    Claims,
    ForwardedCommands,
    Bus,
    Followers,
    Blobs,
    Snapshots,
    Figures,
    Catalog,
    Keys,
    AccessTokens,
    Limiter,
    AuditedKeyValue,
    Ledger,
    Protocol,
):
    """All ports of a store."""

    async def close(self) -> None: ...


@runtime_checkable
class Export(Protocol):
    """Lists of what a store holds besides its catalog, so that all of it can be copied to another store."""

    async def list_stored_conversations(self, after: str, limit: int) -> Sequence[tuple[str, float | None]]:
        """Return conversations with an id after `after`, in order, each with when it must be driven again."""
        ...

    async def list_blob_handles(self, conversation: str) -> Sequence[str]: ...

    async def list_record_kinds(self) -> Sequence[str]: ...

    async def list_figures(self, offset: int, limit: int) -> Sequence[FigureRow]:
        """Return rows after the first `offset` ones, in an order of their own. A step may come several times."""
        ...

    async def list_balances(self, offset: int, limit: int) -> Sequence[BudgetBalance]:
        """Return the balances of all budgets after the first `offset` ones, in an order of their own."""
        ...

    async def list_usage(self, offset: int, limit: int) -> Sequence[UsageRow]:
        """Return rows of the usage after the first `offset` ones, in an order of their own."""
        ...

    async def copy_ledger(self, balances: Sequence[BudgetBalance], usage: Sequence[UsageRow]) -> None:
        """Store balances of another store, without what is reserved there, and add its usage."""
        ...

    async def copy_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Store entries of another store as they are. Their numbers must not be taken here."""
        ...


class CopyableStore(Store, Export, Protocol):
    """A store that can be copied, or copied to."""
