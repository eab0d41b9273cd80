"""The instructions of a person for all their conversations: one text for each user of a tenant."""

import msgspec

from toolyard.core.caller import Caller
from toolyard.core.errors import Forbidden, Invalid
from toolyard.core.store import KeyValue

INSTRUCTIONS = "instructions"
"""The kind of the records."""
MAX_INSTRUCTION_BYTES = 8_000


class Instructions:
    """Reads and stores the callers' own instructions."""

    def __init__(self, store: KeyValue) -> None:
        self._store = store

    async def read(self, caller: Caller) -> str:
        """Return the caller's instructions; empty if there are none."""
        body = await self._store.read_record(INSTRUCTIONS, _name_record(caller)) if caller.user else None
        return body.decode() if body else ""

    async def write(self, caller: Caller, text: str) -> None:
        """Store the caller's instructions in place of the earlier ones. An empty text deletes them."""
        if not caller.user:
            raise Forbidden("instructions belong to a user, and your key names none")
        body = text.strip().encode()
        if len(body) > MAX_INSTRUCTION_BYTES:
            message = f"must have at most {MAX_INSTRUCTION_BYTES:,} bytes, not {len(body):,}"
            raise Invalid(f"text {message}", {"fields": [{"key": "text", "message": message}]})
        if body:
            await self._store.set_record(INSTRUCTIONS, _name_record(caller), body)
        else:
            await self._store.delete_record(INSTRUCTIONS, _name_record(caller))


def _name_record(caller: Caller) -> str:
    # As JSON, in which no tenant and user can be taken for others.
    return msgspec.json.encode((caller.tenant, caller.user)).decode()
