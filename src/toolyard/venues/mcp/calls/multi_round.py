"""Calls that need input, in the new era: the server ends the request with what it needs, and is asked once more.

Nothing is kept here: all that is needed to go on is in the token, so that an answer may come after a restart. Pure.
"""

from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.mcp_client import Capability

Json = dict[str, object]
MOST_TOKEN = 256 * 1024


class Round(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server asked for, and what is known of it so far."""

    requests: dict[str, Json] = {}
    responses: dict[str, Json] = {}
    state: str | None = None
    number: int = 1

    @property
    def pending(self) -> str | None:
        return next((key for key in self.requests if key not in self.responses), None)

    @property
    def question(self) -> Json:
        """What the user is to be asked next; empty if nothing."""
        key = self.pending
        if key is None:
            return {}
        asked = self.requests[key]
        shown = cast(Json, asked.get("params") or {}) if asked["method"] == ELICIT else {}
        return {**shown, "requests": {key: one for key, one in self.requests.items() if key not in self.responses}}

    def forbidden(self, claims: frozenset[Capability]) -> str:
        """A request that we did not say we could answer, if there is one."""
        allowed = (ELICIT, *(method for method, name in PASSED_ON.items() if name in claims))
        return next((str(one["method"]) for one in self.requests.values() if one["method"] not in allowed), "")

    def given(self, responses: Json) -> "Round":
        """With the answers to all that was asked at once; what was not asked is left aside."""
        known = {
            key: cast(Json, one) for key, one in responses.items() if key in self.requests and isinstance(one, dict)
        }
        return replace(self, responses={**self.responses, **known})

    def answered(self, reply: Json) -> "Round":
        key = self.pending
        return self if key is None else replace(self, responses={**self.responses, key: reply})

    @property
    def params(self) -> Json:
        """What the next request carries besides what the first one did."""
        carried: Json = {"inputResponses": self.responses} if self.responses else {}
        return carried if self.state is None else {**carried, "requestState": self.state}

    @property
    def token(self) -> str:
        return TOKEN + msgspec.json.encode(self).decode()


TOKEN = "round:"
ELICIT = "elicitation/create"
PASSED_ON: dict[str, Capability] = {"sampling/createMessage": "sampling", "roots/list": "roots"}
"""What only an MCP client behind us can answer."""
_round = msgspec.json.Decoder(Round)


def needed(raw: Json, number: int = 1) -> Round | None:
    """What a result asks for, if it asks."""
    if raw.get("resultType") != "input_required":
        return None
    asked = raw.get("inputRequests")
    requests = {
        key: cast(Json, one)
        for key, one in (cast(Json, asked) if isinstance(asked, dict) else {}).items()
        if isinstance(one, dict) and "method" in one and isinstance(cast(Json, one).get("params", {}), dict)
    }
    state = raw.get("requestState")
    return Round(requests=requests, state=state if isinstance(state, str) else None, number=number)


def from_token(token: str) -> Round | None:
    return _round.decode(token.removeprefix(TOKEN)) if token.startswith(TOKEN) else None
