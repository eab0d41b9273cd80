"""Decode request bodies: strictly, except where existing clients of older servers have to keep working unchanged.

In a `LenientBody` null means absent and unknown fields are ignored; the debug log names them, never their values.
"""

import functools
import logging
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast, get_args

import msgspec
from litestar.exceptions import SerializationException
from msgspec import Struct, inspect

from toolyard.core.json_errors import describe_json_error
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.http.request_context import HttpRequest, get_request_context

MAX_NAMES, MAX_NAME_CHARS = 20, 80
Table = dict[str, object]
_log = logging.getLogger("toolyard.http")


class LenientBody(Struct, kw_only=True):
    """The body of an endpoint with clients that were written for another server."""


Body = TypeVar("Body", bound=LenientBody)


class BodyRequest(HttpRequest):
    """A request that decodes its JSON body leniently if the handler's `data` is a `LenientBody`."""

    async def json(self) -> object:
        field = self.route_handler.parsed_data_field
        if field is None or not _is_lenient(field.annotation):
            return await self._decode()
        body, kind = await self.body(), field.annotation
        # The fast path decodes straight into the struct. The debug log wants the names of ignored fields, which only
        # the slow path sees.
        if not _log.isEnabledFor(logging.DEBUG):
            try:
                return _get_decoder(kind).decode(body)
            except msgspec.DecodeError:
                pass  # a null that means absent, or an invalid body: the slow path tells them apart
        plain = await self._decode()
        ignored: list[str] = []
        fitted = _fit(plain, inspect.type_info(kind), "", ignored)
        if ignored and _log.isEnabledFor(logging.DEBUG):
            route, correlation_id = min(self.route_handler.paths), get_request_context(self.scope).correlation_id
            names = ", ".join(_shorten_names(ignored))
            _log.debug("%s %s ignored %s", self.method, route, names, extra={"correlation_id": correlation_id})
        return fitted

    async def _decode(self) -> object:
        try:
            return await super().json()
        except SerializationException as error:
            raise SerializationException(describe_json_error(await self.body(), error)) from None


def decode_body(body: bytes, kind: type[Body]) -> Body:
    """Return a lenient body that arrived as a message. Raise Invalid if it does not fit."""
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.DecodeError:
        pass  # a null that means absent, or an invalid body: the slow path tells them apart
    try:
        return msgspec.convert(_fit(msgspec.json.decode(body), inspect.type_info(kind), "", []), kind, strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        message, _, path = describe_json_error(body, error).partition(" - at `$")
        raise invalid_field(path.strip("`.") or "data", message) from None


@functools.cache
def _is_lenient(kind: type) -> bool:
    return any(isinstance(option, type) and issubclass(option, LenientBody) for option in (kind, *get_args(kind)))


@functools.cache
def _get_decoder(kind: type) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(kind, strict=False)  # as Litestar converts


def _fit(value: object, kind: inspect.Type, path: str, ignored: list[str]) -> object:
    """Return the value without the nulls and fields that its type does not have. Untyped data is left unchanged."""
    for option in _iter_alternatives(kind):
        match option:
            case inspect.StructType() if isinstance(value, dict):
                return _fit_fields(cast(Table, value), option, path, ignored)
            case inspect.DictType(value_type=inner) if isinstance(value, dict):
                entries = ((key, _fit(entry, inner, f"{path}.*", ignored)) for key, entry in cast(Table, value).items())
                return {key: entry for key, entry in entries if entry is not None or _accepts_null(inner)}
            case inspect.ListType(item_type=inner) if isinstance(value, list):
                return [_fit(entry, inner, f"{path}[]", ignored) for entry in cast(list[object], value)]
            case _:
                continue
    return value


def _fit_fields(table: Table, struct: inspect.StructType, path: str, ignored: list[str]) -> Table:
    kinds = {field.encode_name: field.type for field in struct.fields}
    fitted: Table = {}
    for name, value in table.items():
        field_path = f"{path}.{name}" if path else name
        if name not in kinds:
            ignored.append(field_path)
        elif value is not None or _accepts_null(kinds[name]):
            fitted[name] = _fit(value, kinds[name], field_path, ignored)
    return fitted


def _iter_alternatives(kind: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the member types of a union, else the type itself."""
    if isinstance(kind, inspect.Metadata):
        yield from _iter_alternatives(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for option in kind.types:
            yield from _iter_alternatives(option)
    else:
        yield kind


def _accepts_null(kind: inspect.Type) -> bool:
    return any(isinstance(option, inspect.NoneType | inspect.AnyType) for option in _iter_alternatives(kind))


def _shorten_names(names: Iterable[str]) -> list[str]:
    """Return the names for one log line: without duplicates, cut to a length and to a number."""
    distinct = list(dict.fromkeys(names))
    lines = ["".join(letter if letter.isprintable() else "?" for letter in name[:MAX_NAME_CHARS]) for name in distinct]
    return lines if len(lines) <= MAX_NAMES else [*lines[:MAX_NAMES], f"and {len(lines) - MAX_NAMES} more"]
