"""A conversation with the offline planner, without a server: its calls are carried out, and its steps are looked at."""

from collections.abc import Sequence

import msgspec

from offline.clock import NOW
from toolyard import Tool
from toolyard.core.items import Call, Item, ModelText, Problem, Reasoning, Result, TextPart, UserMessage, result_id
from toolyard.core.results import build_failed_result, build_withdrawn_result
from toolyard.models.offline.catalogue import Catalogue, CatalogueTool
from toolyard.models.offline.dialogue import encode_dialogue
from toolyard.models.offline.planner import OfflineStep, Planner
from toolyard.venues.function import FunctionTool, as_tool

Made = tuple[str, dict[str, object]]
MAX_TURNS = 6
LOCAL_NOW = NOW.replace(tzinfo=None)


class Talk:
    def __init__(self, *tools: FunctionTool | Tool, items: Sequence[Item] = ()) -> None:
        self._functions = {one.definition.name: one for one in tools if isinstance(one, FunctionTool)}
        definitions = [one if isinstance(one, Tool) else as_tool(one).definition for one in tools]
        self.catalogue = Catalogue([CatalogueTool(definition) for definition in definitions])
        self.planner = Planner(self.catalogue)
        self.items = list(items)
        self.ran: list[Made] = []
        """What was called without a confirmation, or after one."""
        self.proposed: list[Made] = []
        self._open: list[Call] = []

    def start_anew(self) -> None:
        """Begin another conversation with the same tools, which are read once."""
        self.items.clear()
        self._open = []

    def say(self, message: str) -> OfflineStep:
        """Send a message and carry out what is called, until the planner has nothing more to call or waits."""
        self.items += [build_withdrawn_result(call, 0.0) for call in self._open]
        self._open, self.ran, self.proposed = [], [], []
        self.items.append(UserMessage(id=self._id(), at=0.0, parts=(TextPart(text=message),)))
        step = self._step()
        for _ in range(MAX_TURNS):
            if not step.calls or self._open:
                return step
            step = self._step()
        raise AssertionError(f"it does not end: {message!r}")

    def _step(self) -> OfflineStep:
        step = self.planner.next_step(self.items, LOCAL_NOW)
        if step.dialogue is not None:
            self.items.append(encode_dialogue(step.dialogue, self._id(), 0.0))
        if step.text:
            self.items.append(ModelText(id=self._id(), at=0.0, text=step.text))
        calls = [
            Call(id=f"call_{self._id()}_{at}", at=0.0, tool=one.tool, arguments=one.arguments, confirm=step.confirm)
            for at, one in enumerate(step.calls)
        ]
        made = [(call.tool, call.arguments) for call in calls]
        self.items += calls
        if step.confirm == "ask":
            self._open, self.proposed = calls, made
        else:
            self.ran += made
            self.items += [self._carry_out(call) for call in calls]
        return step

    def _carry_out(self, call: Call) -> Result:
        function = self._functions.get(call.tool)
        try:
            value = function(**call.arguments) if function else "done"
        except ValueError as error:
            return build_failed_result(call, "error", Problem(error=str(error), error_type="execution_error"), 0.0)
        content = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        return Result(id=result_id(call.id), at=0.0, call_id=call.id, tool=call.tool, outcome="ok", content=content)

    def _id(self) -> str:
        return f"item_{len(self.items)}"

    @property
    def state(self) -> list[Reasoning]:
        return [item for item in self.items if isinstance(item, Reasoning)]
