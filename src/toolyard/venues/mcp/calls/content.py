"""What a tool of a server came to, as the model can read it. It knows the shapes of MCP, not the SDK.

Text is text; what is no text is named, with its kind and size, and kept beside. A result that says it is an error
becomes one.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from toolyard.core.items import FilePart, ImagePart, Part
from toolyard.core.ports import Failure, Value
from toolyard.core.results import to_problem

Json = dict[str, object]
MAX_LABEL_CHARS = 500
MAX_PARTS_BYTES = 2 * 1024 * 1024
MAX_DETAILS_BYTES = 32 * 1024
"""Of a failure: its details go to the model and into the log whole. What is over it is in `native`, if anywhere."""


def parse_call_result(raw: Json) -> Value | Failure:
    """The value or the failure that a `tools/call` result stands for."""
    blocks = [cast(Json, one) for one in _as_list(raw.get("content")) if isinstance(one, dict)]
    structured = raw.get("structuredContent")
    native = b"" if _is_plain(raw, blocks) else msgspec.json.encode(raw)
    if raw.get("isError") is not True:
        return Value(value=render_blocks(blocks, structured), parts=_build_parts(blocks), native=native)
    details = cast(Json, structured) if isinstance(structured, dict) else {}
    said = render_blocks(blocks, None if details else cast(object, structured)) or "the tool failed and did not say why"
    own = details.get("error_type")
    problem = to_problem(said, own if isinstance(own, str) else "execution_error", limit_details(details))
    return Failure(problem=problem, native=native)


def build_schema_failure(value: Value, mismatch: str) -> Failure:
    """A result that does not fit its tool's `outputSchema`. Nothing of it is lost, but nobody takes it for granted."""
    said = f"the tool has run, but its result is not what its outputSchema promises: {mismatch}"
    return Failure(
        problem=to_problem(said, "invalid_result", limit_details({"result": value.value})), native=value.native
    )


def limit_details(details: Json) -> Json:
    """The details of a failure, field by field, as far as there is room."""
    kept, room = Json(), MAX_DETAILS_BYTES
    for name, value in details.items():
        size = len(msgspec.json.encode(value)) + len(name)
        if size > room:
            told = f"[{size:,} bytes left out]"
            kept[name[:MAX_LABEL_CHARS]] = f"{value[: room // 4]}… {told}" if isinstance(value, str) else told
            break
        kept[name], room = value, room - size
    return kept


def _is_plain(raw: Json, blocks: Sequence[Json]) -> bool:
    """Whether the text says it all: then there is nothing else to keep."""
    bare = {key for key in raw if key not in ("content", "isError", "resultType")}
    return not bare and len(blocks) <= 1 and all(set(block) == {"type", "text"} for block in blocks)


def _build_parts(blocks: Sequence[Json]) -> tuple[Part, ...]:
    """What is no text, as far as it is not too large for the log; `native` has it all."""
    found, room = list[Part](), MAX_PARTS_BYTES
    for block in blocks:
        part = _build_part(block)
        if part is not None and len(part.url) <= room:
            found.append(part)
            room -= len(part.url)
    return tuple(found)


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
    """The blocks in words, one after the other; structured content once, whether or not a block repeats it."""
    said = [render_block(block) for block in blocks]
    if structured is not None and not any(_is_same(block, structured) for block in blocks):
        said.append(msgspec.json.encode(structured).decode())
    return "\n".join(said)


def render_block(block: Json) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return f"[{kind}: {_get_mime_type(block)}, {_decoded_size(data):,} bytes]"
        case {"type": "resource_link", "uri": str(uri)}:
            named = [str(block[key]) for key in ("name", "title", "description") if block.get(key)]
            return f"[resource {uri}: {'; '.join(named)[:MAX_LABEL_CHARS]}]"
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
    if isinstance(structured, dict) and [*cast(Json, structured).values()] == [text]:
        return True
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        return msgspec.json.decode(text) == structured
    except (msgspec.DecodeError, RecursionError):
        return False


def _as_list(value: object) -> Sequence[object]:
    return cast(Sequence[object], value) if isinstance(value, list) else ()


def _get_mime_type(block: Json) -> str:
    return str(block.get("mimeType") or "of unknown kind")


def _decoded_size(base64: str) -> int:
    return len(base64) * 3 // 4 - base64[-2:].count("=")
