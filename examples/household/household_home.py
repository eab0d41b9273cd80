"""The things in a home that can be switched: through Home Assistant, or, where there is none, on paper."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp
import msgspec
from household_sqlite import SqliteHousehold

from toolyard import ToolError

TIMEOUT_S = 10
ERROR_TYPES = {400: "validation_error", 401: "permission_denied", 403: "permission_denied", 404: "not_found"}


class _State(msgspec.Struct):
    """What a Home Assistant tells of an entity that has changed, as far as it is wanted here."""

    entity_id: str


class Home(Protocol):
    async def call(self, domain: str, service: str, entity_id: str, data: Mapping[str, object]) -> dict[str, object]:
        """What became of it: `sent` says whether anything was switched."""
        ...


@dataclass(frozen=True, slots=True)
class HomeAssistant:
    """The REST API of a Home Assistant: POST /api/services/{domain}/{service}."""

    url: str
    token: str = field(repr=False)

    async def call(self, domain: str, service: str, entity_id: str, data: Mapping[str, object]) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {self.token}"}
        address = f"{self.url.rstrip('/')}/api/services/{domain}/{service}"
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        try:
            async with (
                aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
                session.post(address, json={**data, "entity_id": entity_id}, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    said = f"Home Assistant answered {answer.status} to {domain}.{service}"
                    raise ToolError(said, ERROR_TYPES.get(answer.status, "unavailable"), {"status": answer.status})
                changed = msgspec.json.decode(await answer.read(), type=list[_State])
        except TimeoutError:
            raise ToolError(f"Home Assistant did not answer within {TIMEOUT_S} s", "timeout") from None
        except aiohttp.ClientError as error:
            raise ToolError(f"Home Assistant cannot be reached: {error}", "unavailable") from None
        except msgspec.DecodeError as error:
            said = f"Home Assistant took {domain}.{service}, but its answer cannot be read: {error}"
            raise ToolError(said, "unknown_outcome") from None
        return {"id": entity_id, "sent": True, "changed": [state.entity_id for state in changed]}


@dataclass(frozen=True, slots=True)
class PaperHome:
    """No Home Assistant is connected: the call is written down, and said to be no more than that."""

    book: SqliteHousehold

    async def call(self, domain: str, service: str, entity_id: str, data: Mapping[str, object]) -> dict[str, object]:
        record = await asyncio.to_thread(self.book.record_service_call, f"{domain}.{service}", entity_id, data)
        note = "Nothing was switched: no Home Assistant is connected (HA_URL, HA_TOKEN). The call was only recorded."
        return {"id": record, "sent": False, "note": note}
