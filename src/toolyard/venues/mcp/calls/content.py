"""Turns the result of `tools/call` into text that a model can read, and the parts that are not text.

Images, audio and binary resources are named in the text with their type and size. A result with `isError` becomes a
failure. Results are plain JSON here, not models of the SDK.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from toolyard.core.failed_results import to_problem
from toolyard.core.items import FilePart, ImagePart, Part
from toolyard.core.json_types import Json, is_list, is_object
from toolyard.core.ports import Failure, Value

MAX_LABEL_CHARS = 500
MAX_PARTS_BYTES = 2 * 1024 * 1024
MAX_DETAILS_BYTES = 32 * 1024
"""A failure's details go to the model and into the event log. What exceeds the bound is only in `native`, if at all."""


def parse_call_result(raw: Json) -> Value | Failure:
    """Return the value or the failure of a `tools/call` result."""
    blocks = [block for block in _as_list(raw.get("content")) if is_object(block)]
    structured = raw.get("structuredContent")
    native = b"" if _is_plain(raw, blocks) else msgspec.json.encode(raw)
    if raw.get("isError") is not True:
        text = render_blocks(blocks, structured)
        return Value(value=text, parts=_build_parts(blocks), structured=structured, native=native)
    details = structured if is_object(structured) else {}
    text = render_blocks(blocks, None if details else cast(object, structured)) or "the tool failed and did not say why"
    error_type = details.get("error_type")
    problem = to_problem(text, error_type if isinstance(error_type, str) else "execution_error", limit_details(details))
    return Failure(problem=problem, native=native)


def build_schema_failure(value: Value, mismatch: str) -> Failure:
    """Return the failure for a result that does not fit its tool's `outputSchema`. The result is in its details."""
    error_text = f"the tool has run, but its result does not match its outputSchema: {mismatch}"
    return Failure(
        problem=to_problem(error_text, "invalid_result", limit_details({"result": value.value})), native=value.native
    )


def limit_details(details: Json) -> Json:
    """Return the details of a failure, field by field, up to MAX_DETAILS_BYTES."""
    limited, remaining_bytes = Json(), MAX_DETAILS_BYTES
    for name, value in details.items():
        size = len(msgspec.json.encode(value)) + len(name)
        if size > remaining_bytes:
            note = f"[{size:,} bytes left out]"
            # The bound is in bytes; a character takes up to four of them.
            limited[name[:MAX_LABEL_CHARS]] = (
                f"{value[: remaining_bytes // 4]}… {note}" if isinstance(value, str) else note
            )
            break
        limited[name], remaining_bytes = value, remaining_bytes - size
    return limited


def _is_plain(raw: Json, blocks: Sequence[Json]) -> bool:
    """Return whether the text holds the whole result, so that `native` is not needed."""
    extra_fields = {key for key in raw if key not in ("content", "isError", "resultType")}
    return not extra_fields and len(blocks) <= 1 and all(set(block) == {"type", "text"} for block in blocks)


def _build_parts(blocks: Sequence[Json]) -> tuple[Part, ...]:
    """Return the images and files, up to MAX_PARTS_BYTES because they go into the event log; `native` has them all."""
    parts, remaining_bytes = list[Part](), MAX_PARTS_BYTES
    for block in blocks:
        part = _build_part(block)
        if part is not None and len(part.url) <= remaining_bytes:
            parts.append(part)
            remaining_bytes -= len(part.url)
    return tuple(parts)


def _build_part(block: Json) -> ImagePart | FilePart | None:
    match block:
        case {"type": "image", "data": str(data)}:
            return ImagePart(url=f"data:{block.get('mimeType') or 'image/png'};base64,{data}")
        case {"type": "audio", "data": str(data)}:
            return FilePart(url=f"data:{block.get('mimeType') or 'audio/wav'};base64,{data}", name="audio")
        case {"type": "resource_link", "uri": str(uri)}:
            return FilePart(url=uri, name=str(block.get("name") or ""))
        case {"type": "resource", "resource": {"blob": str(blob), "uri": str(uri)}}:
            kind = cast(Json, block["resource"]).get("mimeType") or "application/octet-stream"
            return FilePart(url=f"data:{kind};base64,{blob}", name=uri)
        case _:
            return None


def render_blocks(blocks: Sequence[Json], structured: object) -> str:
    """Return the blocks as text, one after the other, and the structured content unless a block repeats it."""
    texts = [render_block(block) for block in blocks]
    if structured is not None and not any(_is_same(block, structured) for block in blocks):
        texts.append(msgspec.json.encode(structured).decode())
    return "\n".join(texts)


def render_block(block: Json) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return f"[{kind}: {_get_mime_type(block)}, {_decoded_size(data):,} bytes]"
        case {"type": "resource_link", "uri": str(uri)}:
            labels = [str(block[key]) for key in ("name", "title", "description") if block.get(key)]
            return f"[resource {uri}: {'; '.join(labels)[:MAX_LABEL_CHARS]}]"
        case {"type": "resource", "resource": dict()}:
            return _render_resource(cast(Json, block["resource"]))
        case _:
            return msgspec.json.encode(block).decode()


def _render_resource(resource: Json) -> str:
    uri, text, blob = resource.get("uri"), resource.get("text"), resource.get("blob")
    if isinstance(text, str):
        return f"[resource {uri}]\n{text}"
    size = _decoded_size(blob) if isinstance(blob, str) else 0
    return f"[resource {uri}: {_get_mime_type(resource)}, {size:,} bytes]"


def _is_same(block: Json, structured: object) -> bool:
    """Return whether a text repeats the structured content: as JSON, or as its only field.

    SDKs and servers wrap a bare text in a field of their own choice, such as `result` or `content`.
    """
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return False
    if is_object(structured) and [*structured.values()] == [text]:
        return True
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        return msgspec.json.decode(text) == structured
    except (msgspec.DecodeError, RecursionError):
        return False


def _as_list(value: object) -> Sequence[object]:
    return value if is_list(value) else ()


def _get_mime_type(block: Json) -> str:
    return str(block.get("mimeType") or "of unknown kind")


def _decoded_size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
