"""Calls that need input, in the new era: the server ends the request with what it needs, and is asked once more.

Nothing is kept here: all that is needed to go on is in the token, so that an answer may come after a restart. Pure.
"""

from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.mcp_client import Capability

Json = dict[str, object]
MAX_TOKEN_CHARS = 256 * 1024


class InputRound(Struct, frozen=True, kw_only=True, omit_defaults=True):
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

    def find_forbidden(self, claims: frozenset[Capability]) -> str:
        """A request that we did not say we could answer, if there is one."""
        allowed = (ELICIT, *(method for method, name in FORWARDED_METHODS.items() if name in claims))
        return next((str(one["method"]) for one in self.requests.values() if one["method"] not in allowed), "")

    def with_responses(self, responses: Json) -> "InputRound":
        """With the answers to all that was asked at once; what was not asked is left aside."""
        known = {
            key: cast(Json, one) for key, one in responses.items() if key in self.requests and isinstance(one, dict)
        }
        return replace(self, responses={**self.responses, **known})

    def with_reply(self, reply: Json) -> "InputRound":
        key = self.pending
        return self if key is None else replace(self, responses={**self.responses, key: reply})

    @property
    def params(self) -> Json:
        """What the next request carries besides what the first one did."""
        carried: Json = {"inputResponses": self.responses} if self.responses else {}
        return carried if self.state is None else {**carried, "requestState": self.state}

    @property
    def token(self) -> str:
        return TOKEN_PREFIX + msgspec.json.encode(self).decode()


TOKEN_PREFIX = "round:"
ELICIT = "elicitation/create"
FORWARDED_METHODS: dict[str, Capability] = {"sampling/createMessage": "sampling", "roots/list": "roots"}
"""What only an MCP client behind us can answer."""
_round_decoder = msgspec.json.Decoder(InputRound)


def parse_round(raw: Json, number: int = 1) -> InputRound | None:
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
    return InputRound(requests=requests, state=state if isinstance(state, str) else None, number=number)


def decode_token(token: str) -> InputRound | None:
    return _round_decoder.decode(token.removeprefix(TOKEN_PREFIX)) if token.startswith(TOKEN_PREFIX) else None
