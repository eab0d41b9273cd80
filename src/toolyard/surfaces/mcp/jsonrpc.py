"""JSON-RPC messages as MCP uses them: parse incoming ones into structs, build outgoing ones as plain objects.

Outgoing messages are plain objects so that results of other MCP servers pass through unchanged.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolyard.core.json_errors import describe_json_error
from toolyard.core.json_types import Json

Id = str | int

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
RESOURCE_NOT_FOUND = -32002
"""Used until 2025-11-25; later revisions use INVALID_PARAMS instead."""


class RpcError(Exception):
    """A request that is answered with an error instead of a result."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class RpcRequest(Struct, frozen=True, kw_only=True):
    """A request, which gets exactly one response."""

    id: Id
    method: str
    params: Json = {}


class RpcNotification(Struct, frozen=True, kw_only=True):
    """A notification, which gets no response."""

    method: str
    params: Json = {}


class RpcResponse(Struct, frozen=True, kw_only=True):
    """The client's response to one of our requests; the result is None if it answered with an error."""

    id: Id
    result: Json | None = None


Incoming = RpcRequest | RpcNotification | RpcResponse


class _ErrorObject(Struct, frozen=True):
    code: int
    message: str = ""


class _RawMessage(Struct, frozen=True, kw_only=True):
    jsonrpc: Literal["2.0"]
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Json | UnsetType = UNSET
    result: Json | UnsetType = UNSET
    error: _ErrorObject | UnsetType = UNSET


_decode = msgspec.json.Decoder(_RawMessage).decode


def parse_message(body: bytes) -> Incoming:
    """Return the message in a body. Raise RpcError if it is not a JSON-RPC message."""
    try:
        raw = _decode(body)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_REQUEST, f"this is not a JSON-RPC 2.0 message: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RpcError(PARSE_ERROR, f"this cannot be read as JSON: {describe_json_error(body, error)}") from None
    params: Json = {} if isinstance(raw.params, UnsetType) else raw.params
    if isinstance(raw.method, str):
        if isinstance(raw.id, UnsetType):
            return RpcNotification(method=raw.method, params=params)
        if raw.id is None:
            raise RpcError(INVALID_REQUEST, "the id of a request must be a text or a whole number")
        return RpcRequest(id=raw.id, method=raw.method, params=params)
    if isinstance(raw.id, str | int) and not (raw.result is UNSET and raw.error is UNSET):
        return RpcResponse(id=raw.id, result=None if isinstance(raw.result, UnsetType) else raw.result)
    raise RpcError(INVALID_REQUEST, "a message needs a method, or an id with a result or an error")


def build_result(id: Id, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def build_error(id: Id | None, error: RpcError) -> Json:
    error_object: Json = {"code": error.code, "message": error.message}
    if error.data is not None:
        error_object["data"] = error.data
    id_field: Json = {} if id is None else {"id": id}
    return {"jsonrpc": "2.0", **id_field, "error": error_object}


def build_notification(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def build_request(id: Id, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def is_response(message: Json) -> bool:
    return "result" in message or "error" in message


def encode_message(message: Json) -> bytes:
    return msgspec.json.encode(message)


def require_text(params: Json, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"params.{name} must be a text", {"field": name})
    return value


def read_object(params: Json, name: str) -> Json:
    """Return an optional object of the parameters, empty if it is absent. Raise RpcError if it is not an object."""
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"params.{name} must be an object", {"field": name})
    return value  # pyright: ignore[reportUnknownVariableType]
