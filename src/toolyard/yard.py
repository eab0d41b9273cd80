"""The library interface: `Yard` holds tools, a model and a store, and starts runs. The service does the work."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack, overload

from msgspec.structs import replace

from toolyard.core.caller import Caller
from toolyard.core.conversation.commands import Answer, Approve, Change, Command, Deny, Rewind, Stop
from toolyard.core.conversation.cursor import parse_cursor
from toolyard.core.conversation.events import Remember, Reply
from toolyard.core.conversation.history import History
from toolyard.core.conversation.settings import SettingsChange
from toolyard.core.errors import Misconfigured, ToolError
from toolyard.core.items import Call, Item, Problem, TextPart, UserMessage
from toolyard.core.ports import Failure, Rule, Value
from toolyard.core.settings.limits import Budget, Limits
from toolyard.core.settings.models.names import OFFLINE
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.settings.redact_rules import NO_REDACTION, RedactRules
from toolyard.core.settings.tool_rules import DEFAULT_TRUST, TrustRules
from toolyard.core.tools.definition import RUN_CODE_NAME, Tool
from toolyard.core.tools.mcp_servers import ServerSpec
from toolyard.core.tools.web_search_rule import SearchMode, SearchRules, parse_search
from toolyard.engine.log.readers import Reader
from toolyard.engine.run.options import RunOptions, build_run_request, check_run_options
from toolyard.engine.run.output_types import OutputType, T
from toolyard.engine.run.result import RunResult, read_program_value
from toolyard.engine.run.run import Run
from toolyard.hosting import AsgiApp, ContextTask, Message, serve_lifespan
from toolyard.models.resolver import ModelChoice, ModelResolver, make_key_settings
from toolyard.venues.function import ToolLike

if TYPE_CHECKING:  # the parts of a yard are loaded when one is created, which keeps `import toolyard` fast
    from toolyard.app import App, Wiring
    from toolyard.engine.access.authentication import Authenticator
    from toolyard.engine.service import Service
    from toolyard.venues.mcp import McpManager

_log = logging.getLogger("toolyard")
MessageInput = str | UserMessage | Sequence[Item]
LOCAL_CALLER = Caller(user="local", roles=frozenset({"admin"}))


class Yard:
    """Tools, a model and a store, wired together. Use it as `async with Yard(…) as yard:`."""

    def __init__(
        self,
        *,
        tools: Iterable[ToolLike] = (),
        model: ModelChoice = "",
        api_keys: Mapping[str, str] = {},
        servers: Mapping[str, ServerSpec] | None = None,
        store: str = "memory:",
        limits: Limits = Limits(),  # noqa: B008 - immutable
        budget: Budget = Budget(),  # noqa: B008 - immutable
        rules: Sequence[Rule] = (),
        trust: TrustRules = DEFAULT_TRUST,
        redact: RedactRules = NO_REDACTION,
        system_prompt: str = "",
        language: str = "",
        web_search: SearchMode | SearchRules = "",
        provider_tools: Sequence[Tool] = (),
        code: bool = False,
        threads: int = 32,
        grace_s: float = 5.0,
    ) -> None:
        """`api_keys` are API keys by provider name, used in place of the environment variables.

        With `code` the model may write programs that call the tools. It needs the extra `toolyard[code]`.
        """
        from toolyard.app import Wiring

        model_settings = make_key_settings(api_keys)
        if not model:
            raise Misconfigured(
                'a yard needs a model: for example model="openai:gpt-4o-mini", model="ollama:qwen3", or '
                f'model="{OFFLINE}", which needs no key and is not a language model'
            )
        self._wire(
            Wiring(
                model=model,
                model_settings=model_settings,
                tools=tuple(tools),
                servers=servers or {},
                store=store,
                limits=limits,
                budget=budget,
                rules=rules,
                trust=trust,
                redact=redact,
                system_prompt=system_prompt,
                language=language,
                web_search=SearchRules(prefer=web_search) if isinstance(web_search, str) else web_search,
                provider_tools=provider_tools,
                code=code,
                threads=threads,
                grace_s=grace_s,
            )
        )

    @classmethod
    def from_wiring(cls, wiring: "Wiring") -> Self:
        """Return a yard from a complete Wiring, with what only a server needs: keys, defaults, rate limits."""
        yard = cls.__new__(cls)
        yard._wire(wiring)
        return yard

    def _wire(self, wiring: "Wiring") -> None:
        self._wiring = wiring
        self._tasks: asyncio.TaskGroup | None = None
        self._app: App | None = None
        self._surfaces: AsgiApp | None = None
        self._building = asyncio.Lock()
        self._background: ContextTask | None = None
        """Holds the yard open if its ASGI application has opened it."""

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise Misconfigured("the yard is open already: enter it once, and use it wherever it is needed")
        self._tasks, self._building, self._surfaces = asyncio.TaskGroup(), asyncio.Lock(), None
        try:
            self._app = await self._open(self._tasks)
        except BaseException:
            self._tasks = None
            raise
        return self

    async def _open(self, tasks: asyncio.TaskGroup) -> "App":
        from toolyard.app import App, open_store

        wiring = self._wiring
        models = ModelResolver(wiring.model, wiring.model_settings, wiring.named_model, wiring.windows)
        store = wiring.opened_store or await open_store(wiring.store, wiring.postgres)
        try:
            app = App(wiring, models, store, tasks)
            await tasks.__aenter__()
            await app.start()
        except BaseException:
            await store.close()
            raise
        return app

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        try:
            await self._opened_app.close()
        except Exception as close_error:
            if error is None:
                raise
            _log.warning("the yard could not be closed cleanly: %s", close_error)
        finally:
            try:
                await self._tasks.__aexit__(None, None, None)
            finally:
                self._tasks = self._app = None
                # Requests that come after the user has closed the yard must not open it again.
                if self._background is not None and not self._background.is_over:
                    self._surfaces = None

    def asgi(self) -> AsgiApp:
        """Return the HTTP surfaces, to be served or mounted: `app.mount("/assistant", yard.asgi())`.

        The application opens the yard if nobody else has: at the start of a host that sends the ASGI lifespan, else
        with the first request. It closes what it has opened, at the end of the lifespan or of the event loop.
        """

        async def app(
            scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
        ) -> None:
            if scope["type"] == "lifespan":
                await serve_lifespan(self._start_serving, receive, send)
                return
            surfaces = self._surfaces or await self._build_surfaces()
            await surfaces(scope, receive, send)

        return app

    async def _start_serving(self) -> ContextTask | None:
        """Prepare for requests. Return what holds the yard open; None if it was open before."""
        was_open = self._app is not None
        await self._build_surfaces()
        return None if was_open else self._background

    async def _build_surfaces(self) -> AsgiApp:
        """Return the surfaces, after opening the yard if it is not open."""
        if self._app is None:
            if self._background is None or self._background.is_over:
                self._background = ContextTask(self)
            await self._background.wait_entered()
        async with self._building:  # building takes long: concurrent first requests share one build
            self._surfaces = self._surfaces or await self._opened_app.asgi()
        return self._surfaces

    @overload
    def run(self, message: MessageInput, *, output_type: type[T], **options: Unpack[RunOptions]) -> Run[T]: ...

    @overload
    def run(self, message: MessageInput, *, output_type: None = None, **options: Unpack[RunOptions]) -> Run: ...

    def run(
        self, message: MessageInput, *, output_type: type[T] | None = None, **options: Unpack[RunOptions]
    ) -> Run[T] | Run:
        """Return a run, which starts when it is iterated over: `async for event in yard.run("find flour"):`.

        `output_type` is what the answer is to be, for example a dataclass: the result has it as `output`. Raises
        TypeError, with what to write instead, for an option that does not exist or is of another type, and ValueError
        for the id of a front end's thread.
        """
        check_run_options(options)
        output = None if output_type is None else OutputType(output_type)
        if output is not None:
            options["options"] = _set_output_schema(options.get("options", DEFAULT_OPTIONS), output.schema)
        caller, conversation = options.pop("caller", LOCAL_CALLER), options.pop("conversation", "")
        start = self.service.runs.build_start(
            caller,
            self._to_items(message),
            build_run_request(options),
            correlation_id=options.get("correlation_id", ""),
            settings=options.get("settings"),
            interrupt=options.get("interrupt", False),
        )
        start = replace(start, may_name_address=True)
        return Run(self.service, conversation, start, output)

    @overload
    async def ask(self, message: MessageInput, *, output_type: type[T], **options: Unpack[RunOptions]) -> T: ...

    @overload
    async def ask(self, message: MessageInput, *, output_type: None = None, **options: Unpack[RunOptions]) -> str: ...

    async def ask(
        self, message: MessageInput, *, output_type: type[T] | None = None, **options: Unpack[RunOptions]
    ) -> T | str:
        """Return the final text, or the output if `output_type` is given.

        Raises RunWaiting if the run waits for a decision or a result, or RunFailed.
        """
        if output_type is None:
            return (await self.execute(message, **options)).text
        return (await self.execute(message, output_type=output_type, **options)).output

    @overload
    async def execute(
        self,
        content: MessageInput,
        *,
        output_type: type[T],
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[T]: ...

    @overload
    async def execute(
        self,
        content: MessageInput,
        *,
        output_type: None = None,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult: ...

    async def execute(
        self,
        content: MessageInput,
        *,
        output_type: type[T] | None = None,
        metadata: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[T] | RunResult:
        """Return the result of a request: its text, the number of model calls, the tokens, and where each tool ran.

        It takes the arguments of `run` and raises the errors of `ask`. `metadata` may hold `useWebSearch` and
        `webSearchPreference` in place of `web_search`.
        """
        if metadata:
            options["web_search"] = parse_search({"metadata": metadata}, options.get("web_search", ""))
        if output_type is None:
            return await self.run(content, **options).result()
        return await self.run(content, output_type=output_type, **options).result()

    def call(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        caller: Caller = LOCAL_CALLER,
        context: Mapping[str, object] = {},
    ) -> Run:
        """Call one tool without a model: return a run that starts with the call and ends with its result."""
        clock = self._opened_app.clock
        call = Call(id=clock.new_id("call"), at=clock.now(), tool=tool, arguments=dict(arguments))
        return self.run((call,), caller=caller, context=context)

    async def run_code(
        self, code: str, *, caller: Caller = LOCAL_CALLER, context: Mapping[str, object] = {}
    ) -> RunResult:
        """Run a program that calls tools, without a model. The result has the program's value as `output`.

        Its calls are judged and logged like those of a model. Raises ToolError if the program fails, with the calls
        that took effect in its details, and RunWaiting if a call needs a decision.
        """
        if RUN_CODE_NAME not in self.tool_names:
            raise Misconfigured("this yard runs no programs: create it with code=True")
        run = self.call(RUN_CODE_NAME, {"code": code}, caller=caller, context=context)
        result = await run.result()
        program = next(call for call in result.calls if call.tool == RUN_CODE_NAME and not call.parent)
        if program.error is not None:
            raise ToolError(program.error.error, program.error.error_type, program.error.details)
        whole = await self.result(run.conversation, program.handle) if program.handle else program.content.encode()
        return replace(result, output=read_program_value(whole))

    async def approve(
        self,
        conversation: str,
        call_id: str,
        *,
        arguments: Mapping[str, object] | None = None,
        remember: Remember = "no",
        reason: str = "",
        caller: Caller = LOCAL_CALLER,
    ) -> None:
        """Approve a call that asks for a decision, with edited `arguments` if given.

        A call that needs several approvals runs after the last of them.
        """
        edited = None if arguments is None else dict(arguments)
        command = Approve(by=caller, call_id=call_id, arguments=edited, remember=remember, reason=reason)
        await self._submit(conversation, command)

    async def deny(self, conversation: str, call_id: str, reason: str = "", *, caller: Caller = LOCAL_CALLER) -> None:
        """Deny a call that asks for a decision. The model is told the reason, unless the tool requires one."""
        await self._submit(conversation, Deny(by=caller, call_id=call_id, reason=reason))

    async def deliver(
        self,
        conversation: str,
        call_id: str,
        result: object = None,
        *,
        error: str | ToolError = "",
        caller: Caller = LOCAL_CALLER,
    ) -> None:
        """Record the application's result, or its error, for a call of one of its tools."""
        answer = Failure(problem=_to_problem(error)) if error else Value(value=result)
        await self.service.runs.deliver(conversation, {call_id: answer}, caller)

    async def answer(
        self,
        conversation: str,
        call_id: str,
        content: Mapping[str, object] | None = None,
        *,
        reply: Reply = "accepted",
        caller: Caller = LOCAL_CALLER,
    ) -> None:
        """Answer a question that a tool asked."""
        await self._submit(conversation, Answer(by=caller, call_id=call_id, reply=reply, content=dict(content or {})))

    async def change(self, conversation: str, change: SettingsChange, *, caller: Caller = LOCAL_CALLER) -> None:
        """Change the settings of a conversation, from its next run on."""
        await self._submit(conversation, Change(by=caller, change=change, may_name_address=True))

    async def stop(self, conversation: str, *, call_id: str = "", caller: Caller = LOCAL_CALLER) -> None:
        """Stop the current run of a conversation, or one call of it."""
        await self._submit(conversation, Stop(by=caller, call_id=call_id))

    async def rewind(self, conversation: str, to: str, *, caller: Caller = LOCAL_CALLER) -> None:
        """Let the history end with the item `to`, on whatever branch it is; an empty `to` is the beginning.

        Later items stay as a branch. `run(())` then answers a message once more.
        """
        await self._submit(conversation, Rewind(by=caller, to=to))

    async def fork(self, conversation: str, after: str = "", *, caller: Caller = LOCAL_CALLER) -> str:
        """Copy the items, up to the end of a run or up to an item, to a new conversation, and return its id."""
        target = self._opened_app.clock.new_id("conversation")
        await self.service.conversations.fork(conversation, target, caller, after=after)
        return target

    async def follow(self, conversation: str, after: str = "") -> Reader:
        """Return a reader of everything after a cursor; `reader.cursor` is where to continue later."""
        return await self.service.conversations.follow(conversation, parse_cursor(after))

    async def history(self, conversation: str) -> History:
        """Return all items of a conversation, including those that the model is no longer shown."""
        return (await self.service.conversations.view(conversation)).full_history

    async def result(self, conversation: str, handle: str) -> bytes | None:
        """Return a whole result that was too large for the model, or its native form, by a handle of the Result."""
        return await self.service.conversations.read_blob(conversation, handle)

    @property
    def service(self) -> "Service":
        return self._opened_app.service

    @property
    def access(self) -> "Authenticator":
        return self._opened_app.access

    @property
    def servers(self) -> "McpManager":
        return self._opened_app.servers

    @property
    def tool_names(self) -> list[str]:
        return self._opened_app.registry.names()

    @property
    def _opened_app(self) -> "App":
        if self._app is None:
            raise Misconfigured("the yard is not open: use it inside `async with Yard(…) as yard:`")
        return self._app

    async def _submit(self, conversation: str, command: Command) -> None:
        await self.service.conversations.submit(conversation, command)

    def _to_items(self, message: MessageInput) -> tuple[Item, ...]:
        if isinstance(message, UserMessage):
            return (message,)
        if not isinstance(message, str):
            return tuple(message)
        clock = self._opened_app.clock
        return (UserMessage(id=clock.new_id("item"), at=clock.now(), parts=(TextPart(text=message),)),)


def _set_output_schema(options: Options, schema: dict[str, object]) -> Options:
    if options.output_schema is not None:
        raise TypeError("run() takes an output_type or an output_schema, not both")
    return replace(options, output_schema=schema)


def _to_problem(error: str | ToolError) -> Problem:
    if isinstance(error, str):
        return Problem(error=error, error_type="execution_error")
    return Problem(error=error.message, error_type=error.error_type, details=error.details)
