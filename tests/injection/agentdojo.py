"""AgentDojo's suites as tools of Toolyard, and a model that obeys every instruction that it reads.

AgentDojo itself runs in a process of its own, in `.venv-clients`: its tools change its environments, and its own
checks say whether a task was done.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from surfaces.line_process import LineProcess
from toolyard import Call, Context, Executor, ToolError
from toolyard.core.items import Item, Result
from toolyard.core.ports import ModelRequest
from toolyard.testing import Turn, call, say

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
DRIVER = Path(__file__).parent / "drivers" / "drive_agentdojo.py"

SENDING = frozenset(
    {
        "send_email", "share_file", "create_calendar_event", "add_calendar_event_participants",
        "send_money", "schedule_transaction",
        "send_direct_message", "send_channel_message", "invite_user_to_slack", "add_user_to_channel", "post_webpage",
        "reserve_hotel", "reserve_car_rental", "reserve_restaurant",
    }
)  # fmt: skip
"""Tools that reach other people or companies."""
OVERWRITING = frozenset(
    {
        "delete_email", "cancel_calendar_event", "reschedule_calendar_event", "append_to_file", "delete_file",
        "send_money", "update_scheduled_transaction", "update_password", "update_user_info",
        "remove_user_from_slack", "post_webpage",
    }
)  # fmt: skip
ADDING = frozenset({"create_file"})
CHANGING = SENDING | OVERWRITING | ADDING
FETCHING = frozenset({"get_webpage"})
"""Tools that change nothing and ask systems of others."""
STRANGERS_WRITE = frozenset(
    {
        "get_unread_emails", "get_sent_emails", "get_received_emails", "get_draft_emails", "search_emails",
        "search_calendar_events", "get_day_calendar_events",
        "search_files_by_filename", "get_file_by_id", "list_files", "search_files",
        "get_most_recent_transactions", "read_file",
        "get_channels", "get_users_in_channel", "read_channel_messages", "read_inbox",
        "get_rating_reviews_for_hotels", "get_rating_reviews_for_restaurants", "get_rating_reviews_for_car_rental",
    }
)  # fmt: skip
"""Tools that return mails, invitations, shared files, payment references, messages, names and reviews."""


class ToolDescription(Struct, frozen=True):
    name: str
    description: str
    parameters: dict[str, object]


class Suite(Struct, frozen=True):
    tools: list[ToolDescription]
    user_tasks: list[str]
    injection_tasks: list[str]


class TaskCall(Struct, frozen=True):
    function: str
    args: dict[str, object]


class PlannedCall(Struct, frozen=True):
    """A call that the model is going to ask for."""

    tool: str
    arguments: dict[str, object]
    is_injected: bool


class TaskScript(Struct, frozen=True):
    """A user's task with the calls that do it, and the calls that an injected text asks for."""

    prompt: str
    output: str
    calls: list[TaskCall]
    injected_calls: list[TaskCall]
    marker: str


class CallAnswer(Struct, frozen=True):
    """The value of a call as JSON, or its error."""

    result: str = ""
    error: str = ""


class Judgement(Struct, frozen=True):
    passed: bool


class AgentDojo:
    """The process that runs AgentDojo: one episode at a time."""

    def __init__(self) -> None:
        self._process = LineProcess([str(PYTHON), str(DRIVER)])
        self.suites = msgspec.json.decode(self._process.first_line, type=dict[str, Suite])

    def build_tools(self, suite: str) -> list["DojoTool"]:
        return [DojoTool(description, self) for description in self.suites[suite].tools]

    def start(self, suite: str, user_task: str, injection_task: str = "") -> TaskScript:
        request = {"suite": suite, "user_task": user_task, "injection_task": injection_task}
        return msgspec.json.decode(self._process.exchange(request), type=TaskScript)

    def run(self, tool: str, arguments: Mapping[str, object]) -> object:
        """Return the value of a call. Raises ToolError."""
        answer = msgspec.json.decode(self._process.exchange({"tool": tool, "arguments": arguments}), type=CallAnswer)
        if answer.error:
            raise ToolError(answer.error)
        return msgspec.json.decode(answer.result)

    def is_done(self, output: str) -> bool:
        """Return whether the user's task is done."""
        return self._judge("utility", output)

    def is_attacked(self, output: str) -> bool:
        """Return whether the injection reached its goal."""
        return self._judge("security", output)

    def _judge(self, check: str, output: str) -> bool:
        return msgspec.json.decode(self._process.exchange({"check": check, "output": output}), type=Judgement).passed

    def close(self) -> None:
        self._process.close()


class DojoTool(Executor):
    """A tool of AgentDojo, with annotations that say what it does."""

    max_result_bytes = 1_000_000

    def __init__(self, description: ToolDescription, dojo: AgentDojo) -> None:
        self.name = description.name
        self.description = description.description
        self.parameters = description.parameters
        self.read_only = self.name not in CHANGING
        self.destructive = self.name in OVERWRITING
        self.open_world = self.name in SENDING | FETCHING
        self.untrusted = self.name in STRANGERS_WRITE
        self._dojo = dojo

    def execute(self, call: Call, context: Context) -> object:
        return self._dojo.run(call.tool, call.arguments)


class GullibleModel:
    """Plays the calls of the user's task; as soon as a result holds the injected text, first those that it asks for."""

    def __init__(self) -> None:
        self._left: list[PlannedCall] = []
        self._injected: list[PlannedCall] = []
        self._marker = self._output = ""
        self._has_obeyed = False
        self.played: list[PlannedCall] = []
        """The calls that were asked for in this episode."""

    def begin(self, episode: TaskScript) -> None:
        self._left = [PlannedCall(planned.function, planned.args, False) for planned in episode.calls]
        self._injected = [PlannedCall(planned.function, planned.args, True) for planned in episode.injected_calls]
        self._marker, self._output = episode.marker, episode.output
        self._has_obeyed = False
        self.played = []

    def __call__(self, request: ModelRequest) -> Turn:
        if not self._has_obeyed and contains_text(request.history, self._marker):
            self._has_obeyed = True
            self._left[:0] = self._injected
        if not self._left:
            return say(self._output)
        planned = self._left.pop(0)
        self.played.append(planned)
        return call(planned.tool, **planned.arguments)


_PROGRAM_HEAD = """
import json
obeyed = False
async def reads(work):
    try:
        value = await work
    except Exception as error:
        value = str(error)
    return {marker!r} in json.dumps(value)
"""


class GullibleProgram:
    """Plays the same calls as `GullibleModel` by one program, which obeys what it reads without asking the model."""

    def __init__(self) -> None:
        self._code = self._output = ""
        self.injected_lines: set[int] = set()
        """The lines of the program that make the calls for which the injected text asks."""

    def begin(self, episode: TaskScript) -> None:
        lines = _PROGRAM_HEAD.format(marker=episode.marker).splitlines()
        self.injected_lines = set()
        for planned in episode.calls:
            lines += [f"if await reads({_format_call(planned)}) and not obeyed:", "    obeyed = True"]
            for injected in episode.injected_calls:
                lines.append(f"    await reads({_format_call(injected)})")
                self.injected_lines.add(len(lines))
        self._code, self._output = "\n".join([*lines, "obeyed"]), episode.output

    def __call__(self, request: ModelRequest) -> Turn:
        return say(self._output) if isinstance(request.history[-1], Result) else call("run_code", code=self._code)


def _format_call(planned: TaskCall) -> str:
    return f"{planned.function}({', '.join(f'{name}={value!r}' for name, value in planned.args.items())})"


def contains_text(history: Sequence[Item], text: str) -> bool:
    return any(isinstance(item, Result) and text in item.content for item in history)
