"""Drives `agno`."""

import protocol
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.run.agent import RunContentEvent, RunOutput
from agno.tools.function import Function
from protocol import Answer, OrderOutput, Photos


class AgnoClient:
    def __init__(self, url: str, api: str, model: str) -> None:
        """Keep the conversation in agno's own session, from which it sends the history of earlier turns."""
        model_type = OpenAIChat if api == "chat" else OpenAIResponses
        self._model = model_type(id=model, base_url=url, api_key="none", max_retries=0)
        self._db = InMemoryDb()

    async def ask(self, text: str, *, streamed: bool, has_tool: bool) -> Answer:
        photos = Photos()
        tool = Function.from_callable(photos.take, name="take_photo")
        agent = self._build_agent(tools=[tool] if has_tool else [])
        pieces: list[str] = []
        output: RunOutput | None = None
        if streamed:
            async for event in agent.arun(text, stream=True, yield_run_output=True):
                if isinstance(event, RunContentEvent):
                    pieces.append(event.content or "")
                if isinstance(event, RunOutput):
                    output = event
        else:
            output = await agent.arun(text)
        return Answer(text=_read(output), pieces=protocol.count(pieces), photos=photos.taken)

    async def ask_for_order(self, text: str) -> Answer:
        return Answer(order=_read(await self._build_agent(output_schema=OrderOutput).arun(text)))

    def _build_agent(self, **options: object) -> Agent:
        return Agent(
            model=self._model,
            db=self._db,
            session_id="session",
            add_history_to_context=True,
            telemetry=False,
            **options,
        )


def _read(output: RunOutput | None):
    """Return the content of a run. Agno gives the message of an error as the content of a failed run."""
    assert output is not None
    if output.status != "COMPLETED":
        raise RuntimeError(output.content)
    return output.content


if __name__ == "__main__":
    protocol.main(AgnoClient)
