"""A conversation with the offline planner, without a server: its calls are carried out, and its steps are looked at."""

from collections.abc import Sequence

import msgspec

from offline.clock import NOW
from toolyard import Tool
from toolyard.core.failed_results import build_failed_result, build_withdrawn_result
from toolyard.core.items import Call, Item, ModelText, Problem, Reasoning, Result, TextPart, UserMessage, result_id
from toolyard.models.offline.catalogue import Catalogue, CatalogueTool
from toolyard.models.offline.dialogue import encode_dialogue
from toolyard.models.offline.planner import OfflineStep, Planner
from toolyard.venues.function import FunctionTool, as_tool

ToolAndArguments = tuple[str, dict[str, object]]
MAX_TURNS = 6
LOCAL_NOW = NOW.replace(tzinfo=None)


class OfflineConversation:
    def __init__(self, *tools: FunctionTool[..., object] | Tool, items: Sequence[Item] = ()) -> None:
        self._functions = {tool.definition.name: tool for tool in tools if isinstance(tool, FunctionTool)}
        definitions = [tool if isinstance(tool, Tool) else as_tool(tool).definition for tool in tools]
        self.catalogue = Catalogue([CatalogueTool(definition) for definition in definitions])
        self.planner = Planner(self.catalogue)
        self.items = list(items)
        self.ran_calls: list[ToolAndArguments] = []
        """What was called without a confirmation, or after one."""
        self.proposed_calls: list[ToolAndArguments] = []
        self._open: list[Call] = []

    def start_anew(self) -> None:
        """Begin another conversation with the same tools, which are read once."""
        self.items.clear()
        self._open = []

    def say(self, message: str) -> OfflineStep:
        """Send a message and carry out what is called, until the planner has nothing more to call or waits."""
        self.items += [build_withdrawn_result(call, 0.0) for call in self._open]
        self._open, self.ran_calls, self.proposed_calls = [], [], []
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
            Call(
                id=f"call_{self._id()}_{at}",
                at=0.0,
                tool=step_call.tool,
                arguments=step_call.arguments,
                confirm=step.confirm,
            )
            for at, step_call in enumerate(step.calls)
        ]
        pairs = [(call.tool, call.arguments) for call in calls]
        self.items += calls
        if step.confirm == "ask":
            self._open, self.proposed_calls = calls, pairs
        else:
            self.ran_calls += pairs
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
