"""Keeps what went over the wire for a model turn, where that was asked for, with everything left out that looks secret.

It is a help for finding mistakes: if it cannot be kept, the run goes on.
"""

import logging

import msgspec
from msgspec import Struct

from toolyard.core.errors import StoreDown
from toolyard.core.ports import RECORDED_TURN_PREFIX, WireExchange
from toolyard.core.store import Blobs
from toolyard.observability.telemetry import mask_secrets

MAX_BYTES = 4 * 1024 * 1024
_log = logging.getLogger("toolyard.kept")


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """The request as JSON, or as text where it is none; the answer as it came, piece after piece."""

    url: str
    headers: dict[str, str]
    request: object
    response: str
    cut: bool = False
    """The answer was longer than what is kept of it."""


class WireLog:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def record(self, conversation: str, run_id: str, turn: int, exchanged: WireExchange) -> None:
        try:
            await self._blobs.put(
                conversation, build_handle(run_id, turn), msgspec.json.encode(build_recorded_turn(exchanged))
            )
        except StoreDown as error:
            _log.warning("what was sent for turn %s of %s is not kept: %s", turn, run_id, error)

    async def read(self, conversation: str, run_id: str, turn: int) -> RecordedTurn | None:
        body = await self._blobs.get(conversation, build_handle(run_id, turn))
        return None if body is None else msgspec.json.decode(body, type=RecordedTurn)


def build_handle(run_id: str, turn: int) -> str:
    return f"{RECORDED_TURN_PREFIX}{run_id}.{turn}"


def build_recorded_turn(exchanged: WireExchange) -> RecordedTurn:
    return RecordedTurn(
        url=str(mask_secrets(exchanged.url)),
        headers=exchanged.headers,
        request=_decode_request(exchanged.request),
        response=str(mask_secrets(exchanged.response[:MAX_BYTES].decode("utf-8", "replace"))),
        cut=len(exchanged.response) > MAX_BYTES,
    )


def _decode_request(body: bytes) -> object:
    if len(body) > MAX_BYTES:
        return f"{body[:MAX_BYTES].decode('utf-8', 'replace')}… ({len(body):,} bytes)"
    try:
        return mask_secrets(msgspec.json.decode(body))
    except msgspec.DecodeError:
        return mask_secrets(body.decode("utf-8", "replace"))
