"""Keeps what went over the wire for a model turn, where that was asked for, with everything left out that looks secret.

It is a help for finding mistakes: if it cannot be kept, the run goes on.
"""

import logging

import msgspec
from msgspec import Struct

from toolyard.core.errors import StoreDown
from toolyard.core.ports import KEPT_TURN, Exchanged
from toolyard.core.store import Blobs
from toolyard.observability.telemetry import masked

MOST_BYTES = 4 * 1024 * 1024
_log = logging.getLogger("toolyard.kept")


class KeptTurn(Struct, frozen=True, kw_only=True):
    """The request as JSON, or as text where it is none; the answer as it came, piece after piece."""

    url: str
    headers: dict[str, str]
    request: object
    response: str
    cut: bool = False
    """The answer was longer than what is kept of it."""


class Keeper:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def keep(self, conversation: str, run_id: str, turn: int, exchanged: Exchanged) -> None:
        try:
            await self._blobs.put(conversation, handle(run_id, turn), msgspec.json.encode(told(exchanged)))
        except StoreDown as error:
            _log.warning("what was sent for turn %s of %s is not kept: %s", turn, run_id, error)

    async def kept(self, conversation: str, run_id: str, turn: int) -> KeptTurn | None:
        body = await self._blobs.get(conversation, handle(run_id, turn))
        return None if body is None else msgspec.json.decode(body, type=KeptTurn)


def handle(run_id: str, turn: int) -> str:
    return f"{KEPT_TURN}{run_id}.{turn}"


def told(exchanged: Exchanged) -> KeptTurn:
    return KeptTurn(
        url=str(masked(exchanged.url)),
        headers=exchanged.headers,
        request=_request(exchanged.request),
        response=str(masked(exchanged.response[:MOST_BYTES].decode("utf-8", "replace"))),
        cut=len(exchanged.response) > MOST_BYTES,
    )


def _request(body: bytes) -> object:
    if len(body) > MOST_BYTES:
        return f"{body[:MOST_BYTES].decode('utf-8', 'replace')}… ({len(body):,} bytes)"
    try:
        return masked(msgspec.json.decode(body))
    except msgspec.DecodeError:
        return masked(body.decode("utf-8", "replace"))
