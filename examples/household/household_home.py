"""The devices in a home that can be switched: through Home Assistant, or only recorded if none is connected."""

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
    """The part of an entity's state in Home Assistant that is used here."""

    entity_id: str


class Home(Protocol):
    async def call(self, domain: str, service: str, entity_id: str, data: Mapping[str, object]) -> dict[str, object]:
        """Call a service, and return its outcome: `sent` says whether the call reached a device."""
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
                session.post(address, json={**data, "entity_id": entity_id}, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    message = f"Home Assistant answered {response.status} to {domain}.{service}"
                    error_type = ERROR_TYPES.get(response.status, "unavailable")
                    raise ToolError(message, error_type, {"status": response.status})
                changed = msgspec.json.decode(await response.read(), type=list[_State])
        except TimeoutError:
            raise ToolError(f"Home Assistant did not answer within {TIMEOUT_S} s", "timeout") from None
        except aiohttp.ClientError as error:
            raise ToolError(f"Home Assistant cannot be reached: {error}", "unavailable") from None
        except msgspec.DecodeError as error:
            message = f"Home Assistant took {domain}.{service}, but its answer cannot be read: {error}"
            raise ToolError(message, "unknown_outcome") from None
        return {"id": entity_id, "sent": True, "changed": [state.entity_id for state in changed]}


@dataclass(frozen=True, slots=True)
class RecordedHome:
    """A home without Home Assistant: calls are only recorded in the household's file, and the result says so."""

    book: SqliteHousehold

    async def call(self, domain: str, service: str, entity_id: str, data: Mapping[str, object]) -> dict[str, object]:
        record = await asyncio.to_thread(self.book.record_service_call, f"{domain}.{service}", entity_id, data)
        note = "Nothing was switched: no Home Assistant is connected (HA_URL, HA_TOKEN). The call was only recorded."
        return {"id": record, "sent": False, "note": note}
