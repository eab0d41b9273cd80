"""What Open WebUI sends while a call waits for its user, by either API, as version 0.12.4 was recorded doing it.

Its page asks for a title, tags and follow-up questions by itself. Such a request is one user message that quotes the
chat, and nothing else tells it from a message of the user.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from surfaces.api_client import Json
from surfaces.openai.clients import (
    Served,
    added,
    define_tool,
    join_content,
    list_exchange,
    order,
    serve_script,
)
from toolyard.core.errors import Refused
from toolyard.core.items import Item, ModelText, UserMessage
from toolyard.surfaces.shared.call_ids import parse_call_id
from toolyard.testing import call, say, together

ORDER = together(say("One moment."), call("order", item="milk"))
TASKS: Mapping[str, Json] = {"title": {"max_tokens": 1000}, "tags": {}, "follow_ups": {}}
"""The fields that each task has beside its message."""
OWN_TOOL = define_tool("ask_user", questions={"type": "array", "items": {"type": "object"}})
"""One of the tools that Open WebUI runs itself and declares with each message, but not with a task."""
RETRY = {"x-stainless-retry-count": "1"}
APIS = pytest.mark.parametrize("api", ["chat", "responses"])


class OpenWebUI:
    """Sends what Open WebUI sends for a chat, and keeps the chat as it does."""

    def __init__(self, served: Served, api: str) -> None:
        self.served = served
        self._api = api
        self._messages: list[Json] = []

    @property
    def answer(self) -> str:
        """The last answer, as the page shows it."""
        return self._messages[-1]["content"]

    async def send(self, text: str) -> None:
        """Send a message."""
        self._messages.append({"role": "user", "content": text})
        self._messages.append({"role": "assistant", "content": await self._stream(self._messages)})

    async def regenerate(self, **headers: str) -> None:
        """Ask for another answer in place of the last: "Try Again", and a message that is sent again unchanged."""
        self._messages[-1]["content"] = await self._stream(self._messages[:-1], **headers)

    async def regenerate_otherwise(self, wish: str) -> None:
        """Ask for another answer with a wish: "Add Details" and "More Concise"."""
        messages = [*self._messages, {"role": "user", "content": wish}]
        self._messages[-1]["content"] = await self._stream(messages)

    async def go_on(self) -> None:
        """Ask for more of the last answer: "Continue Response". What comes is put to its end."""
        separator = "" if self._api == "chat" else "\n"
        self._messages[-1]["content"] += separator + await self._stream(self._messages)

    async def run_task(self, task: str, model: str = "default") -> str:
        """Ask for a text about the chat, and return it."""
        lines = [f"{message['role'].upper()}: {message['content']}" for message in self._messages]
        history = "\n".join(["<chat_history>", *lines, "</chat_history>"])
        message = {"role": "user", "content": f'### Task:\nFind {task}.\n### Output:\n{{ "{task}": … }}\n{history}'}
        client, fields = self.served.client, TASKS[task]
        if self._api == "chat":
            answer = await client.chat.completions.create(model=model, messages=[message], stream=False, **fields)
            return answer.choices[0].message.content
        fields = {"max_output_tokens": fields["max_tokens"]} if fields else {}
        response = await client.responses.create(model=model, input=_build_input([message]), stream=False, **fields)
        return response.output_text

    async def _stream(self, messages: Sequence[Json], **headers: str) -> str:
        if self._api == "chat":
            return join_content(await self.served.stream(messages, tools=[OWN_TOOL], extra_headers=headers))
        stream = await self.served.client.responses.create(
            model="default",
            input=_build_input(messages),
            stream=True,
            tools=[{"type": "function", **OWN_TOOL["function"]}],
            extra_headers=headers,
        )
        # The page shows the texts of a response below each other.
        texts = [event.text async for event in stream if event.type == "response.output_text.done"]
        return "\n".join(texts)


def _build_input(messages: Sequence[Json]) -> list[Json]:
    kinds = {"user": "input_text", "assistant": "output_text"}
    return [
        {
            "type": "message",
            "role": message["role"],
            "content": [{"type": kinds[message["role"]], "text": message["content"]}],
        }
        for message in messages
    ]


async def approve(served: Served, answer: str) -> None:
    """Approve the call that an answer links to."""
    conversation, call_id = parse_call_id(answer.rpartition("?call=")[2])
    await served.yard.approve(conversation, call_id)


def list_texts(history: Sequence[Item]) -> list[str]:
    return [item.text for item in history if isinstance(item, UserMessage | ModelText)]


NO_MESSAGES: Mapping[str, Callable[[OpenWebUI], Awaitable[object]]] = {
    "try again": OpenWebUI.regenerate,
    "a retry": lambda page: page.regenerate(**RETRY),
    "continue": OpenWebUI.go_on,
    "title": lambda page: page.run_task("title"),
    "tags": lambda page: page.run_task("tags"),
    "follow-ups": lambda page: page.run_task("follow_ups"),
}
NEW_MESSAGES: Mapping[str, Callable[[OpenWebUI], Awaitable[object]]] = {
    "a message": lambda page: page.send("Forget it"),
    "an answer with a wish": lambda page: page.regenerate_otherwise("Add Details"),
}


@APIS
@pytest.mark.parametrize("kind", NO_MESSAGES)
async def test_what_is_no_new_message_leaves_the_call_waiting(api: str, kind: str) -> None:
    quoted = [say("About milk.")] if kind in ("title", "tags", "follow-ups") else []
    async with serve_script([ORDER, *quoted, say("Ordered.")], [order]) as served:
        page = OpenWebUI(served, api)
        await page.send("Please order milk")
        sentence = page.answer
        assert "`order` waits for an approval" in sentence
        await NO_MESSAGES[kind](page)
        assert (page.answer.endswith(sentence), len(served.model.requests)) == (True, 1 + len(quoted))
        await approve(served, page.answer)
        await page.go_on()
        assert page.answer.endswith("Ordered.")
    assert added == ["ordered milk"]


@APIS
@pytest.mark.parametrize("kind", NEW_MESSAGES)
async def test_a_new_message_lets_the_call_go(api: str, kind: str) -> None:
    async with serve_script([ORDER, *[say("About milk.")] * len(TASKS), say("Then not.")], [order]) as served:
        page = OpenWebUI(served, api)
        await page.send("Please order milk")
        await page.regenerate()
        await page.go_on()
        sentence = page.answer
        for task in TASKS:
            assert await page.run_task(task) == "About milk."
        await NEW_MESSAGES[kind](page)
        assert page.answer == "Then not."
        with pytest.raises(Refused):
            await approve(served, sentence)
    history = served.model.requests[-1].history
    ordered, result = list_exchange(history)
    assert ordered == "order['milk']" and "the user went on" in result
    assert list_texts(history)[:-1] == ["Please order milk", "One moment."]
    assert added == []


@APIS
async def test_a_plain_task_model_is_offered_no_tools(api: str) -> None:
    async with serve_script([ORDER, *[say("About milk.")] * len(TASKS)], [order]) as served:
        page = OpenWebUI(served, api)
        await page.send("Please order milk")
        for task in TASKS:
            assert await page.run_task(task, "default@plain") == "About milk."
    offered = [[tool.name for tool in request.offer.tools] for request in served.model.requests]
    assert offered == [["order", "ask_user"], [], [], []]


@APIS
async def test_the_model_reads_an_answer_once_that_was_put_to_the_end_of_the_sentence(api: str) -> None:
    ordered = "Ordered.\n\nAnything else?"
    async with serve_script([ORDER, say(ordered), say("You are welcome.")], [order]) as served:
        page = OpenWebUI(served, api)
        await page.send("Please order milk")
        await approve(served, page.answer)
        await page.go_on()
        assert page.answer.endswith(ordered)
        await page.send("Thanks")
    assert list_texts(served.model.requests[-1].history) == ["Please order milk", "One moment.", ordered, "Thanks"]
