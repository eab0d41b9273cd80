"""`toolyard:offline`: a planner that is a Model like any other. It needs no key and no network.

The same conversation and the same tools always lead to the same turn. What is planned is in `_offline/`.
"""

import re
from collections.abc import AsyncGenerator
from weakref import WeakKeyDictionary

import msgspec

from toolyard.core.events import ArgumentsAppended, ModelDelta, TextAppended, TurnEnded, TurnFailed
from toolyard.core.items import Call, ModelText, Usage
from toolyard.core.ports import ModelRequest, Offer
from toolyard.models._offline.matching import Matcher
from toolyard.models._offline.plan import Step, next_step
from toolyard.models._offline.profiles import Profile, profile_of

NAME = "toolyard:offline"


class Offline:
    def __init__(self) -> None:
        self._matchers: WeakKeyDictionary[Offer, tuple[Matcher, Profile | None]] = WeakKeyDictionary()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        step = self.step(request)
        offset = 0
        for piece in re.findall(r"\s*\S{1,40}", step.text):
            yield TextAppended(turn=request.turn, offset=offset, text=piece)
            offset += len(piece.encode())
        calls = [
            Call(id=request.mint.id("call"), at=request.mint.now(), tool=one.tool, arguments=one.arguments)
            for one in step.calls
        ]
        for index, call in enumerate(calls):
            text = msgspec.json.encode(call.arguments).decode()
            yield ArgumentsAppended(turn=request.turn, index=index, tool=call.tool, offset=0, text=text)
        said = [ModelText(id=request.mint.id("item"), at=request.mint.now(), text=step.text)] if step.text else []
        yield TurnEnded(
            items=(*said, *calls), finish="calls" if calls else "stop", usage=_usage(request, step), model=NAME
        )

    async def close(self) -> None:
        pass

    def step(self, request: ModelRequest) -> Step:
        matcher, finder = self._known(request.offer)
        return next_step(request.history, matcher, finder, request.tool_choice)

    def _known(self, offer: Offer) -> tuple[Matcher, Profile | None]:
        """The tools of an offer, read once. What is built in is for finding others, not for requests."""
        if (known := self._matchers.get(offer)) is None:
            profiles = [profile_of(tool, offer.hashes.get(tool.name, "")) for tool in offer.tools]
            own = [profile for profile in profiles if not profile.tool.built_in]
            finder = next(
                (one for one in profiles if one.tool.built_in and one.main and one.main.name == "query"), None
            )
            known = self._matchers[offer] = Matcher(own), finder
        return known


def _usage(request: ModelRequest, step: Step) -> Usage:
    """Words in place of tokens: nobody bills for them, but a run's limits count them."""
    return Usage(input_tokens=1 + len(request.history), output_tokens=len(step.text.split()) + len(step.calls))
