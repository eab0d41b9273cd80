"""Read the messages of a request into items: the blocks of the user, and those of the model that a client sends back.

What the provider wants back unchanged goes into seals, under the name of the provider that gets it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from toolyard.core.items import (
    Call,
    ModelText,
    Part,
    Problem,
    Reasoning,
    Result,
    TextPart,
    UserMessage,
    result_id,
)
from toolyard.core.json_types import is_list, is_object
from toolyard.core.messages_blocks import (
    CODE_EXECUTION_TOOLS,
    HOSTED_TOOLS,
    REDACTED_PREFIX,
    RESULT_SUFFIX,
    BlockFields,
    Mark,
    SealedCall,
    SealedResult,
    TextPiece,
    parse_result,
    seal,
)
from toolyard.core.tools.trust import APPLICATION, SENT_HISTORY
from toolyard.surfaces.anthropic.blocks import (
    MAX_BLOCKS,
    Block,
    count_blocks,
    count_marks,
    list_blocks,
    read_mark,
    read_part,
    require_text,
)
from toolyard.surfaces.http.errors import invalid_field
from toolyard.surfaces.shared.history import ItemBuilder

OTHER_PROVIDER = "anthropic"
"""The provider of what a client of another model's sends back in Anthropic's words: no other provider gets it."""


class SentCaller(Struct, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Who made a call of the provider's own tools: the model, or code that the provider ran."""

    type: Annotated[str, Meta(pattern=r"^(direct|code_execution_\d{8})\Z")]
    tool_id: str | None = None


class SentMessage(Struct, kw_only=True, gc=False):
    """A message of the history: a text, or blocks."""

    role: str
    content: object


class MessageReader:
    """Reads the messages of one request."""

    def __init__(self, provider: str) -> None:
        """`provider` is that of the model, if its API is this one, else empty."""
        self._provider = provider
        self._target = provider or OTHER_PROVIDER
        self._hosted: dict[str, tuple[str, Call]] = {}
        """The provider's own calls without a result, by their ids there, and of which type their results are."""
        self.marks = 0
        """How many marks the messages have so far."""

    def add(self, builder: ItemBuilder, index: int, message: SentMessage) -> None:
        """Add a message to the history that is being built. Raise Invalid, with its index, if it does not fit."""
        key = f"messages.{index}"
        blocks, marks = count_blocks(message.content)
        if blocks > MAX_BLOCKS:
            raise invalid_field(f"{key}.content", f"has more than {MAX_BLOCKS:,} blocks: send it in several messages")
        builder.work += blocks
        self.marks += marks
        if message.role == "user":
            self._add_user(builder, index, message.content, f"{key}.content")
        elif message.role == "assistant":
            self._add_assistant(builder, index, message.content, f"{key}.content")
        elif message.role == "system":
            blocks = list_blocks(message.content, f"{key}.content")
            texts = [require_text(block, "text", f"{key}.content.{number}") for number, block in enumerate(blocks)]
            builder.add(index, "system", "\n\n".join(texts))
        else:
            raise invalid_field(f"{key}.role", "must be user, assistant or system")

    def _add_user(self, builder: ItemBuilder, index: int, content: object, key: str) -> None:
        blocks = list_blocks(content, key)
        fields: list[BlockFields] = []
        parts: list[Part] = []
        for number, block in enumerate(blocks):
            block_key = f"{key}.{number}"
            if block.get("type") == "tool_result":
                self._add_result(builder, index, block, block_key)
                continue
            parts.append(read_part(block, block_key))
            fields.append(_read_fields(block, block_key))
        if not parts and blocks:
            return
        if not any(not isinstance(part, TextPart) or part.text.strip() for part in parts):
            raise invalid_field(key, "has no text: a message of the user must say something")
        builder.add_parts(index, tuple(parts))
        # Told to the provider that has these words. The seal holds none of the text, which may have to be redacted.
        if self._provider and any(field != BlockFields() for field in fields):
            last = builder.items[-1]
            assert isinstance(last, UserMessage)
            builder.items[-1] = replace(last, seal=seal(self._provider, fields))

    def _add_result(self, builder: ItemBuilder, index: int, block: Block, key: str) -> None:
        call_id = block.get("tool_use_id")
        if not isinstance(call_id, str) or not call_id:
            raise invalid_field(f"{key}.tool_use_id", "names no call")
        if not builder.has_open_call(call_id):
            raise invalid_field(f"{key}.tool_use_id", "answers no call before it, or one that has its result already")
        content = block.get("content")
        parts, references, marks = self._read_result_content(content, f"{key}.content")
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        texts += [f"[the tool {name} is available now]" for name in references]
        others = tuple(part for part in parts if not isinstance(part, TextPart))
        builder.add_result(index, call_id, "\n".join(texts), others)
        result = builder.items[-1]
        assert isinstance(result, Result)
        if not isinstance(is_error := block.get("is_error"), bool | None):
            raise invalid_field(f"{key}.is_error", "must be true or false")
        if is_error:
            problem = Problem(error=result.content or "the tool failed", error_type="execution_error")
            result = replace(result, outcome="error", error=problem, content=problem.error)
        fields = BlockFields(
            cache_control=read_mark(block, key) or next(iter(marks), None), tool_references=references or None
        )
        if self._provider and fields != BlockFields():
            result = replace(result, seal=seal(self._provider, fields))
        builder.items[-1] = result

    def _read_result_content(self, content: object, key: str) -> tuple[list[Part], list[str], list[Mark]]:
        """Return the parts of a result, the tools that it makes known, and the marks inside it."""
        parts: list[Part] = []
        references: list[str] = []
        marks: list[Mark] = []
        for number, block in enumerate(list_blocks("" if content is None else content, key)):
            block_key = f"{key}.{number}"
            if mark := read_mark(block, block_key):
                marks.append(mark)
            if block.get("type") != "tool_reference":
                parts.append(read_part(block, block_key))
            elif not self._provider:
                raise invalid_field(block_key, "tool_reference is Anthropic's, and this model is another provider's")
            else:
                references.append(require_text(block, "tool_name", block_key))
        return parts, references, marks

    def _add_assistant(self, builder: ItemBuilder, index: int, content: object, key: str) -> None:
        builder.require_results(index)
        for number, block in enumerate(list_blocks(content, key)):
            block_key = f"{key}.{number}"
            match block.get("type"):
                case "text":
                    self._add_text(builder, index, block, block_key)
                case "thinking" | "redacted_thinking":
                    self._add_thinking(builder, index, block, block_key)
                case "tool_use" | "mcp_tool_use":
                    self._add_call(builder, index, number, block, block_key)
                case "mcp_tool_result":
                    self._add_result(builder, index, block, block_key)
                case "server_tool_use":
                    self._add_hosted_call(builder, index, block, block_key)
                case str() as kind if kind.endswith(RESULT_SUFFIX):
                    self._add_hosted_result(builder, index, block, kind, block_key)
                case kind:
                    raise invalid_field(block_key, f"a block of the type {str(kind)[:40]!r} cannot be read here")

    def _add_text(self, builder: ItemBuilder, index: int, block: Block, key: str) -> None:
        text, mark = require_text(block, "text", key), read_mark(block, key)
        citations: object = block.get("citations") or list[object]()
        if not is_list(citations) or not all(is_object(citation) for citation in citations):
            raise invalid_field(f"{key}.citations", "must be a list of citations")
        _refuse_marks(citations, f"{key}.citations")
        # Without its index at the provider a citation is one that was made up here, from another provider's answer.
        signed = [citation for citation in citations if is_object(citation) and citation.get("encrypted_index") != ""]
        piece = TextPiece(len(text), [{k: v for k, v in cited.items() if k != "file_id"} for cited in signed], mark)
        sealed = seal(self._provider, [piece]) if self._provider and (piece.citations or mark) else None
        if text.strip():
            builder.add_model_item(
                index, lambda id, at: ModelText(id=id, at=at, text=text, untrusted=SENT_HISTORY, seal=sealed)
            )

    def _add_thinking(self, builder: ItemBuilder, index: int, block: Block, key: str) -> None:
        """Add thinking that its provider has signed, for that provider. Any other is dropped, as all providers do."""
        text, signature = "", ""
        if block.get("type") == "redacted_thinking":
            signature = REDACTED_PREFIX + require_text(block, "data", key)
        else:
            text, signature = require_text(block, "thinking", key), require_text(block, "signature", key)
        if signature and self._provider:
            builder.add_model_item(
                index,
                lambda id, at: Reasoning(
                    id=id, at=at, text=text, provider=self._provider, signature=signature, untrusted=SENT_HISTORY
                ),
            )

    def _add_call(self, builder: ItemBuilder, index: int, number: int, block: Block, key: str) -> None:
        call_id, name, arguments = _read_call(block, key)
        mark = read_mark(block, key)
        sealed = seal(self._provider, BlockFields(cache_control=mark)) if mark and self._provider else None
        builder.add_call(index, (call_id, name, arguments), number, sealed)

    def _add_hosted_call(self, builder: ItemBuilder, index: int, block: Block, key: str) -> None:
        call_id, name, arguments = _read_call(block, key)
        if name not in HOSTED_TOOLS:
            raise invalid_field(f"{key}.name", f"{name[:40]!r} is no tool of the provider that can be used here")
        if call_id in self._hosted:
            raise invalid_field(f"{key}.id", "another call has this id")
        sealed = seal(self._target, SealedCall(name, _read_caller(block, key)))
        tool = CODE_EXECUTION_TOOLS.get(name, name)

        def build(item_id: str, at: float) -> Call:
            return Call(
                id=item_id,
                at=at,
                tool=tool,
                arguments=arguments,
                provider_id=call_id,
                ran_at=self._target,
                seal=sealed,
                untrusted=SENT_HISTORY,
            )

        builder.add_model_item(index, build)
        call = builder.items[-1]
        assert isinstance(call, Call)
        self._hosted[call_id] = (name + RESULT_SUFFIX, call)

    def _add_hosted_result(self, builder: ItemBuilder, index: int, block: Block, kind: str, key: str) -> None:
        expected, call = self._hosted.pop(require_text(block, "tool_use_id", key), ("", None))
        if call is None or kind != expected:
            raise invalid_field(key, "answers no server_tool_use before it")
        content = block.get("content")
        _refuse_marks(content, f"{key}.content")
        outcome, text, error = parse_result(content, call.tool)
        sealed = seal(self._target, SealedResult(kind, content))

        def build(_: str, at: float) -> Result:
            return Result(
                id=result_id(call.id),
                at=at,
                call_id=call.id,
                tool=call.tool,
                outcome=outcome,
                content=text,
                error=error,
                ran_at=self._target,
                seal=sealed,
                untrusted=APPLICATION,
            )

        builder.add_model_item(index, build)


def _read_caller(block: Block, key: str) -> SentCaller | None:
    try:
        return msgspec.convert(block.get("caller"), SentCaller | None)
    except msgspec.ValidationError as error:
        raise invalid_field(f"{key}.caller", str(error)) from None


def _refuse_marks(value: object, key: str) -> None:
    """Raise Invalid if a value that goes to the provider unchanged has marks, which nobody would count there."""
    if count_marks(value):
        raise invalid_field(key, "may have no cache_control inside")


def _read_fields(block: Block, key: str) -> BlockFields:
    citations, context = block.get("citations"), block.get("context")
    if block.get("type") != "document":
        return BlockFields(cache_control=read_mark(block, key))
    if not (citations is None or is_object(citations)) or not (context is None or isinstance(context, str)):
        raise invalid_field(key, "citations must be an object, and context a text")
    return BlockFields(cache_control=read_mark(block, key), citations=citations, context=context)


def _read_call(block: Block, key: str) -> tuple[str, str, dict[str, object]]:
    call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(call_id, str) or not call_id or not isinstance(name, str) or not name or not is_object(arguments):
        raise invalid_field(key, "a call needs an id, a name and an input, which is an object")
    return call_id, name, arguments
