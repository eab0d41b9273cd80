"""Records the HTTP request and response of model turns, without anything that looks like a secret.

The records are a debugging aid: if one cannot be stored, the run goes on.
"""

import logging

import msgspec
from msgspec import Struct

from toolyard.core.errors import StoreDown
from toolyard.core.ports import RECORDED_TURN_PREFIX, WireExchange
from toolyard.core.store import Blobs
from toolyard.observability.telemetry import mask_secrets

MAX_BYTES = 4 * 1024 * 1024
_log = logging.getLogger("toolyard.wire_log")


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """The request as decoded JSON, or as text if it is not JSON, and the response as it was received."""

    url: str
    headers: dict[str, str]
    request: object
    response: str
    cut: bool = False
    """Whether the response was truncated to MAX_BYTES."""


class WireLog:
    """Stores recorded turns as blobs of their conversation, so that they are deleted with it."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def record(self, conversation: str, run_id: str, turn: int, exchanged: WireExchange) -> None:
        try:
            await self._blobs.put_blob(
                conversation, build_handle(run_id, turn), msgspec.json.encode(build_recorded_turn(exchanged))
            )
        except StoreDown as error:
            _log.warning("turn %s of %s could not be recorded: %s", turn, run_id, error)

    async def read(self, conversation: str, run_id: str, turn: int) -> RecordedTurn | None:
        body = await self._blobs.get_blob(conversation, build_handle(run_id, turn))
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
