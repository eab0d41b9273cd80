"""A venue whose tool asks the user before it does something."""

from collections.abc import Sequence

from toolyard import Context
from toolyard.core.items import Call
from toolyard.core.ports import Failure, Pending, ToolHooks, Value
from toolyard.core.tools.definition import Tool


class AskingVenue:
    def __init__(self, question: dict[str, object]) -> None:
        self._question = question

    def tools(self) -> Sequence[Tool]:
        return [Tool(name="book", venue="mcp")]

    def hooks(self, tool: str) -> ToolHooks:
        return ToolHooks()

    async def run(self, call: Call, tool: Tool, context: Context) -> Value | Failure | Pending:
        if context.answer is None:
            return Pending(kind="question", question=self._question, resume_token="t")
        return Value(value=context.answer)

    async def close(self) -> None:
        pass
