"""Encodes items as messages of the Messages API, as bytes that can be joined. Pure.

The last message is left open (without its closing brackets), so that further blocks of the same role join it: the API
requires roles to alternate, and a history does not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeGuard

from toolyard.core.items import Call, Item, ModelText, Reasoning, Result, SystemText, UserMessage
from toolyard.core.messages_blocks import (
    HOSTED_TOOLS,
    REDACTED_PREFIX,
    RESULT_SUFFIX,
    BlockFields,
    SealedCall,
    SealedResult,
    TextPiece,
    decode_block,
    decode_call,
    decode_parts,
    decode_pieces,
    decode_result,
    unseal,
)
from toolyard.models.messages.parts import (
    IMAGE_LIMITS,
    Block,
    build_blocks,
    build_image_block,
    build_text_block,
    is_blank,
    mark_block,
)
from toolyard.models.shared.attachments import list_images
from toolyard.models.shared.encode_cache import NO_RESULT
from toolyard.models.shared.json_values import encode_json
from toolyard.models.shared.tool_names import to_provider_name

HISTORY_OMITTED = "[what was said before is left out]"
"""The first user message of a history that the model would begin, which the API refuses."""
PAUSED = "paused"
"""The role of an assistant message that ends in a call or result of the provider, which then continues the message."""

_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_NO_FIELDS = BlockFields()
RoleBlock = tuple[str, Block]


def find_open_calls(history: Sequence[Item], provider: str) -> list[Call]:
    """Return the provider's own calls in the last group without a result: it sends the results in the next turn."""
    answered: set[str] = set()
    open_calls: list[Call] = []
    seen_call = False
    for number in range(len(history) - 1, -1, -1):
        match history[number]:
            case Result(call_id=call_id) if not seen_call:
                answered.add(call_id)
            case Call() as call:
                seen_call = True
                if call.ran_at == provider and call.id not in answered:
                    open_calls.append(call)
            case _:
                break
    return open_calls


def join_blocks(blocks: Iterable[RoleBlock], role: str) -> tuple[bytes, str]:
    """Return the bytes that add blocks after an open message of this role, and the role of the new open message."""
    pieces: list[bytes] = []
    role = "assistant" if role == PAUSED else role
    for next_role, run in groupby(blocks, key=lambda role_block: role_block[0]):
        body = b",".join([encode_json(block) for _, block in run])
        if next_role == role:
            pieces.append(b"," + body)
        else:
            closing = b"]}," if role else b""
            pieces.append(closing + b'{"role":"' + next_role.encode() + b'","content":[' + body)
        role = next_role
    return b"".join(pieces), role


class MessagesEncoder:
    """Encodes a history for one provider. Seals and signatures of any other provider are left out."""

    __slots__ = ("_provider",)

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def encode_group(self, group: Sequence[Item], role: str, last: bool) -> tuple[bytes, str]:
        blocks = list(self._build_blocks(group, last))
        if not blocks:
            return b"", role
        if not role and blocks[0][0] == "assistant":
            blocks.insert(0, ("user", build_text_block(HISTORY_OMITTED)))
        body, role = join_blocks(blocks, role)
        return body, PAUSED if role == "assistant" and _is_server_block(blocks[-1][1]) else role

    def _build_blocks(self, group: Sequence[Item], last: bool) -> Iterable[RoleBlock]:
        first = group[0]
        if isinstance(first, SystemText):
            return [] if is_blank(first.text) else [("user", build_text_block(f"<system>\n{first.text}\n</system>"))]
        if isinstance(first, UserMessage):
            fields = unseal(first.seal, self._provider, decode_parts) or ()
            return [("user", block) for block in build_blocks(first, fields)]
        calls = {item.id: item for item in group if isinstance(item, Call) and not self._unseal_call(item)}
        results = {item.call_id: item for item in reversed(group) if isinstance(item, Result)}
        # The API refuses an assistant message that ends in thinking.
        spoken = [*self._build_assistant_blocks(group, last), *map(self._build_tool_use, calls.values())]
        while spoken and spoken[-1]["type"] in ("thinking", "redacted_thinking"):
            spoken.pop()
        answers = [self._build_tool_result(call, results.get(call.id)) for call in calls.values()]
        return [*(("assistant", block) for block in spoken), *(("user", block) for block in answers)]

    def _build_assistant_blocks(self, group: Sequence[Item], last: bool) -> Iterator[Block]:
        """Yield the blocks of the model and of its provider in order, without the calls that Toolyard runs.

        A provider's call is sent only with its result, or in the last group if the provider has yet to answer it
        (`find_open_calls`): anywhere else a `server_tool_use` without its result is refused.
        """
        continued = {call.id for call in find_open_calls(group, self._provider)} if last else set[str]()
        results = {item.call_id: number for number, item in enumerate(group) if self._is_hosted_result(item)}
        unanswered: dict[str, Call] = {}
        for number, item in enumerate(group):
            match item:
                case ModelText():
                    yield from self._build_text_blocks(item)
                case Reasoning() if block := self._build_thinking_block(item):
                    yield block
                case Call() if sealed := self._unseal_call(item):
                    if item.id in continued or results.get(item.id, -1) > number:
                        unanswered[item.id] = item
                        yield _build_server_tool_use(item, sealed)
                case Result() if (unsealed := self._unseal_result(item)) and (
                    call := unanswered.pop(item.call_id, None)
                ):
                    yield {"type": unsealed.type, "tool_use_id": call.provider_id, "content": unsealed.content}
                case _:
                    pass

    def _is_hosted_result(self, item: Item) -> TypeGuard[Result]:
        return isinstance(item, Result) and self._unseal_result(item) is not None

    def _build_text_blocks(self, item: ModelText) -> list[Block]:
        """Return a text split into the blocks that its citations belong to."""
        pieces = unseal(item.seal, self._provider, decode_pieces) or [TextPiece(len(item.text))]
        blocks: list[Block] = []
        start = 0
        for piece in pieces:
            text = item.text[start : start + piece.length]
            start += piece.length
            if not is_blank(text):
                citations = {"citations": piece.citations} if piece.citations else {}
                blocks.append(mark_block({**build_text_block(text), **citations}, piece.cache_control))
        return blocks

    def _build_thinking_block(self, item: Reasoning) -> Block | None:
        # Anthropic refuses thinking without the signature that it gave, and signatures of others.
        if item.provider != self._provider or not item.signature:
            return None
        if item.signature.startswith(REDACTED_PREFIX):
            return {"type": "redacted_thinking", "data": item.signature[len(REDACTED_PREFIX) :]}
        return {"type": "thinking", "thinking": item.text, "signature": item.signature}

    def _unseal_call(self, call: Call) -> SealedCall | None:
        """Return the sealed part of a call that this provider ran; None for any other, which is sent as a `tool_use`.

        The name is checked because a history may come from a client: a seal must not put anything else in a request.
        """
        sealed = unseal(call.seal, self._provider, decode_call) if call.ran_at == self._provider else None
        return sealed if sealed and sealed.name in HOSTED_TOOLS else None

    def _unseal_result(self, result: Result) -> SealedResult | None:
        sealed = unseal(result.seal, self._provider, decode_result) if result.ran_at == self._provider else None
        return sealed if sealed and sealed.type.removesuffix(RESULT_SUFFIX) in HOSTED_TOOLS else None

    def _build_tool_use(self, call: Call) -> Block:
        block: Block = {
            "type": "tool_use",
            "id": _to_tool_use_id(call.id),
            "name": to_provider_name(call.tool),
            "input": call.arguments,
        }
        fields = _NO_FIELDS if call.ran_at else unseal(call.seal, self._provider, decode_block) or _NO_FIELDS
        return mark_block(block, fields.cache_control)

    def _build_tool_result(self, call: Call, result: Result | None) -> Block:
        block = _build_plain_result(call, result)
        if result is None or result.ran_at or (fields := unseal(result.seal, self._provider, decode_block)) is None:
            return block
        if fields.tool_references:
            names = map(to_provider_name, fields.tool_references)
            block["content"] = [{"type": "tool_reference", "tool_name": name} for name in names]
        return mark_block(block, fields.cache_control)


def _is_server_block(block: Block) -> bool:
    return block["type"] == "server_tool_use" or str(block["type"]).endswith("_tool_result")


def _build_server_tool_use(call: Call, sealed: SealedCall) -> Block:
    block: Block = {"type": "server_tool_use", "id": call.provider_id, "name": sealed.name, "input": call.arguments}
    return block if sealed.caller is None else {**block, "caller": sealed.caller}


def _build_plain_result(call: Call, result: Result | None) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _to_tool_use_id(call.id)}
    content = result.content if result else NO_RESULT
    if result is None or result.outcome != "ok":
        return {**block, **({} if is_blank(content) else {"content": content}), "is_error": True}
    images = [build_image_block(image) for image in list_images(result, IMAGE_LIMITS)]
    if images:
        block["content"] = [*([] if is_blank(content) else [build_text_block(content)]), *images]
    elif not is_blank(content):
        block["content"] = content
    return block


def _to_tool_use_id(call_id: str) -> str:
    return _NOT_IN_AN_ID.sub("_", call_id) or "_"
