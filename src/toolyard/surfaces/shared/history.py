"""Convert a history that comes with a request into items, in batches, so that a long one does not block the loop."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from toolyard.core.errors import Invalid
from toolyard.core.items import Call, Item, ModelText, Part, Result, Seal, SystemText, TextPart, UserMessage, result_id
from toolyard.core.ports import Clock
from toolyard.core.tools.trust import APPLICATION, SENT_HISTORY
from toolyard.engine.service import Service
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.surfaces.shared.chat_messages import ChatMessage, is_message_id, parse_time

MAX_BATCH = 250
"""How many messages, or blocks of them, are converted before other tasks may run: about a millisecond of work."""
M = TypeVar("M")
RequestedCall = tuple[str, str, str | dict[str, object]]
"""The caller's id of a call, its tool, and its arguments: as JSON text or already decoded."""
_CALL_ID = re.compile(r"call_[0-9a-f]{24}")
_arguments_decoder = msgspec.json.Decoder(dict[str, object])


class ItemBuilder:
    """Builds items from messages, in order, and checks that calls and results match.

    Item ids are one random prefix with a number: a random id for each item would be the largest part of the work.
    """

    def __init__(
        self, clock: Clock, used_ids: Collection[str] = (), field: str = "messages", *, derives_call_ids: bool = False
    ) -> None:
        """Build items whose ids are not among `used_ids`. Errors name the messages as parts of `field`.

        With `derives_call_ids` a call has the same id in every request that brings it. That is for histories of their
        own: in a stored one an earlier request may have brought the call already.
        """
        self._field = field
        self._derives_call_ids = derives_call_ids
        self.items: list[Item] = []
        self._now = self._at = clock.now()
        self._item_id, self._call_id = clock.new_id("item"), clock.new_id("call")
        self._open_calls: dict[str, Call] = {}
        self._calls_end = 0
        """The position after the last call."""
        self._answered: dict[str, str] = {}
        """The ids of the results so far, by the client's ids of their calls."""
        self._more_output: dict[str, list[tuple[str, tuple[Part, ...]]]] = {}
        """What came of a result in further messages, by its id."""
        self._used_ids = set(used_ids)
        self.work = 0
        """How many messages and blocks of them were read."""

    @property
    def has_open_calls(self) -> bool:
        """Return whether a call so far has no result."""
        return bool(self._open_calls)

    def expect_results(self, calls: Iterable[Call]) -> None:
        """Accept results also for these calls, which came before the messages."""
        self._open_calls |= {call.provider_id or call.id: call for call in calls}

    def add(
        self,
        index: int,
        role: str,
        text: str,
        calls: Iterable[RequestedCall] = (),
        answered_call_id: str = "",
        message_id: object = None,
        timestamp: object = None,
    ) -> None:
        """Add a text message: an assistant's with its calls, a tool's as the result of `answered_call_id`.

        A text has the id `message_id` if that is a valid id which is not used yet, and the time `timestamp` if that is
        a time that has passed. Raise Invalid, with the message's index, for a message that does not fit.
        """
        self._at = parse_time(timestamp, self._now) if timestamp else self._now
        if role == "tool":
            self.items.append(self._build_result(index, answered_call_id, text))
            return
        if self._open_calls:
            self.require_results(index)
        if role == "user":
            item_id = self._choose_id(index, message_id) if message_id else f"{self._item_id}_{index}"
            self.items.append(UserMessage(id=item_id, at=self._at, parts=(TextPart(text=text),)))
        elif role == "assistant":
            if text:
                item_id = self._choose_id(index, message_id) if message_id else f"{self._item_id}_{index}"
                self.items.append(ModelText(id=item_id, at=self._at, text=text, untrusted=SENT_HISTORY))
            for number, call in enumerate(calls):
                self.items.append(self._build_call(index, number, call))
                self._calls_end = len(self.items)
        elif role in ("system", "developer"):
            item_id = self._choose_id(index, message_id) if message_id else f"{self._item_id}_{index}"
            self.items.append(SystemText(id=item_id, at=self._at, text=text))
        else:
            raise self._build_error(index, f"role {role[:40]!r} is none of user, assistant, system, tool")

    def _choose_id(self, index: int, message_id: object) -> str:
        """Return the client's id if it can be used, else one of ours: the clients of these endpoints send any id."""
        if not is_message_id(message_id) or message_id in self._used_ids:
            return f"{self._item_id}_{index}"
        self._used_ids.add(message_id)
        return message_id

    def add_parts(
        self, index: int, parts: tuple[Part, ...], message_id: object = None, timestamp: object = None
    ) -> None:
        """Add a user's message that has images besides its text."""
        # With the checks of `add`; the item is then replaced by one with the parts.
        self.add(index, "user", "", message_id=message_id, timestamp=timestamp)
        self.items[-1] = UserMessage(id=self.items[-1].id, at=self._at, parts=parts)

    def add_summary(self, index: int, text: str, untrusted: str) -> None:
        """Add a summary as a message of the user. `untrusted` names the untrusted sources of what it sums up."""
        self.add(index, "user", text)
        parts = (TextPart(text=text),)
        self.items[-1] = UserMessage(id=self.items[-1].id, at=self._at, parts=parts, untrusted=untrusted)

    def add_result(self, index: int, call_id: str, text: str, parts: tuple[Part, ...] = ()) -> None:
        """Add the result of a call, whose images and files the text names, or more of a result that is there."""
        if call_id not in self._open_calls and (earlier := self._answered.get(call_id)):
            self._more_output.setdefault(earlier, []).append((text, parts))
            return
        self.add(index, "tool", text, (), call_id)
        if parts and isinstance(result := self.items[-1], Result):
            self.items[-1] = replace(result, parts=parts)

    def has_open_call(self, call_id: str) -> bool:
        """Return whether a call with this id of the client's has no result yet."""
        return call_id in self._open_calls

    def _build_call(self, index: int, number: int, call: RequestedCall, sealed: Seal | None = None) -> Call:
        provider_id, tool, arguments = call
        if provider_id in self._open_calls:
            raise self._build_error(index, f"two calls have the id {provider_id[:80]!r}")
        derived_id = self._derive_call_id(provider_id) if self._derives_call_ids else ""
        call_id = derived_id or f"{self._call_id}_{index}_{number}"
        table = self._parse_arguments(index, arguments) if isinstance(arguments, str) else arguments
        new_call = Call(id=call_id, at=self._at, tool=tool, arguments=table, provider_id=provider_id, seal=sealed)
        self._open_calls[provider_id] = new_call
        return new_call

    def _derive_call_id(self, provider_id: str) -> str:
        """Return an id that is the same in every request; empty if it is used already.

        Providers cache what they were sent before, ids of calls included.
        """
        _, call_id = parse_call_id(provider_id)
        call_id = call_id.replace("mcptoolu_", "call_", 1)
        if not _CALL_ID.fullmatch(call_id):
            call_id = f"call_{hashlib.blake2b(provider_id.encode(errors='replace'), digest_size=12).hexdigest()}"
        if call_id in self._used_ids:
            return ""
        self._used_ids.add(call_id)
        return call_id

    def _build_result(self, index: int, provider_id: str, content: str) -> Result:
        call = self._open_calls.pop(provider_id, None)
        if call is None:
            raise self._build_error(index, f"tool_call_id {provider_id[:80]!r} answers no call before it")
        self._answered[provider_id] = item_id = result_id(call.id)
        return Result(
            id=item_id,
            at=self._at,
            call_id=call.id,
            tool=call.tool,
            outcome="ok",
            content=content,
            untrusted=APPLICATION,
        )

    def add_model_item(self, index: int, build: Callable[[str, float], Item]) -> None:
        """Add an item of a message that holds several, apart from calls. `build` takes its id and its time."""
        item = build(f"{self._item_id}_{index}_{len(self.items)}", self._at)
        self.items.append(item)
        if isinstance(item, Call):
            self._calls_end = len(self.items)

    def require_results(self, index: int) -> None:
        """Raise Invalid, with a message's index, if a call before that message has no result."""
        if self._open_calls:
            raise self._build_error(index, f"the calls {self._name_open_calls()} before it have no result")

    def add_call(self, index: int, call: RequestedCall, number: int = 0, sealed: Seal | None = None) -> None:
        """Add a call to the assistant's message before it, if that has calls without a result, or as a new message.

        `number` tells the calls of one message apart.
        """
        new_call = self._build_call(index, number, call, sealed)
        # Results that came already belong after all calls of the message.
        position = self._calls_end if len(self._open_calls) > 1 else len(self.items)
        self.items.insert(position, new_call)
        self._calls_end = position + 1

    def finish(self, last_index: int) -> list[Item]:
        """Return the items. Raise Invalid if a call is left without its result."""
        if self._open_calls:
            raise self._build_error(last_index, f"the calls {self._name_open_calls()} have no result")
        return self.list_items()

    def list_items(self) -> list[Item]:
        """Return the items, each result with all that came of it."""
        return [self._complete(item) for item in self.items] if self._more_output else self.items

    def _complete(self, item: Item) -> Item:
        if not isinstance(item, Result) or not (more := self._more_output.get(item.id)):
            return item
        parts = (*item.parts, *(part for _, parts in more for part in parts))
        return replace(item, content="\n".join([item.content, *(text for text, _ in more)]), parts=parts)

    def _name_open_calls(self) -> str:
        return ", ".join(provider_id[:80] for provider_id in self._open_calls)

    def _parse_arguments(self, index: int, text: str) -> dict[str, object]:
        try:
            return _arguments_decoder.decode(text or "{}")
        except (msgspec.DecodeError, RecursionError):
            raise self._build_error(index, "the arguments of a call are not a JSON object") from None

    def _build_error(self, index: int, why: str) -> Invalid:
        fields = [{"key": f"{self._field}.{index}", "message": why}]
        return Invalid(f"{self._field.removesuffix('s')} {index}: {why}", {"fields": fields})


def add_message(builder: ItemBuilder, index: int, message: ChatMessage) -> None:
    calls = message.tool_calls
    requested = [(call.id, call.function.name, call.function.arguments) for call in calls] if calls else ()
    call_id, timestamp = message.tool_call_id or "", message.timestamp
    builder.add(index, message.role, message.content or "", requested, call_id, message.id, timestamp)


async def read_history(
    messages: Sequence[M],
    clock: Clock,
    add: Callable[[ItemBuilder, int, M], None],
    first_index: int = 0,
    used_ids: Collection[str] = (),
    field: str = "messages",
    *,
    derives_call_ids: bool = False,
) -> list[Item]:
    """Return the messages as items. Raise Invalid, with its index, for a message that does not fit.

    `first_index` is the index of the first message in the caller's own list, for errors. A message whose id is among
    `used_ids` gets another one. Errors name the messages as parts of `field`. For `derives_call_ids` see `ItemBuilder`.
    """
    builder = ItemBuilder(clock, used_ids, field, derives_call_ids=derives_call_ids)
    batch_end = MAX_BATCH
    for index, message in enumerate(messages, first_index):
        if builder.work >= batch_end:
            await asyncio.sleep(0)
            batch_end = builder.work + MAX_BATCH
        builder.work += 1
        add(builder, index, message)
    return builder.finish(first_index + len(messages) - 1)


async def find_used_ids(service: Service, conversation: str, ids: Iterable[object]) -> set[str]:
    """Return those of a client's ids that a stored conversation has already; an empty `conversation` is a new one."""
    texts = {message_id for message_id in ids if message_id and isinstance(message_id, str)}
    return (await service.conversations.view(conversation)).find_used_ids(texts) if conversation and texts else set()
