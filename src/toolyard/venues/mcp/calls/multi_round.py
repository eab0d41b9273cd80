"""Calls that need input in the new era: the server's result names what it needs, and the call is sent once more.

Pure and without state: the token holds all that is needed to go on, so an answer may come after a restart.
"""

from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolyard.core.json_types import Json, is_object
from toolyard.core.tools.mcp_servers import Capability

MAX_TOKEN_CHARS = 256 * 1024


class InputRound(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a server asked for in one round, and the responses so far."""

    requests: dict[str, Json] = {}
    responses: dict[str, Json] = {}
    state: str | None = None
    number: int = 1

    @property
    def pending(self) -> str | None:
        return next((key for key in self.requests if key not in self.responses), None)

    @property
    def question(self) -> Json:
        """Return the next question to the user, with all open requests for an MCP client; empty if there is none."""
        key = self.pending
        if key is None:
            return {}
        request = self.requests[key]
        form = cast(Json, request.get("params") or {}) if request["method"] == ELICIT else {}
        unanswered = {name: request for name, request in self.requests.items() if name not in self.responses}
        return {**form, "requests": unanswered}

    def find_forbidden(self, claims: frozenset[Capability]) -> str:
        """Return the method of a request that was not announced as possible; empty if there is none."""
        allowed = (ELICIT, *(method for method, name in FORWARDED_METHODS.items() if name in claims))
        methods = (request["method"] for request in self.requests.values())
        return next((str(method) for method in methods if method not in allowed), "")

    def with_responses(self, responses: Json) -> "InputRound":
        """Return the round with responses to several requests at once; responses to unknown requests are ignored."""
        matching = {
            key: response for key, response in responses.items() if key in self.requests and is_object(response)
        }
        return replace(self, responses={**self.responses, **matching})

    def with_reply(self, reply: Json) -> "InputRound":
        key = self.pending
        return self if key is None else replace(self, responses={**self.responses, key: reply})

    @property
    def params(self) -> Json:
        """Return what the next request carries in addition to the parameters of the first one."""
        params: Json = {"inputResponses": self.responses} if self.responses else {}
        return params if self.state is None else {**params, "requestState": self.state}

    @property
    def token(self) -> str:
        return TOKEN_PREFIX + msgspec.json.encode(self).decode()


TOKEN_PREFIX = "round:"
ELICIT = "elicitation/create"
FORWARDED_METHODS: dict[str, Capability] = {"sampling/createMessage": "sampling", "roots/list": "roots"}
"""Requests that only the calling MCP client can answer, and the capability that each needs."""
_round_decoder = msgspec.json.Decoder(InputRound)


def parse_round(raw: Json, number: int = 1) -> InputRound | None:
    """Return the round of questions of a result, or None if the result is final."""
    if raw.get("resultType") != "input_required":
        return None
    listed = raw.get("inputRequests")
    requests = {
        key: request
        for key, request in (listed if is_object(listed) else {}).items()
        if is_object(request) and "method" in request and isinstance(request.get("params", {}), dict)
    }
    state = raw.get("requestState")
    return InputRound(requests=requests, state=state if isinstance(state, str) else None, number=number)


def decode_token(token: str) -> InputRound | None:
    return _round_decoder.decode(token.removeprefix(TOKEN_PREFIX)) if token.startswith(TOKEN_PREFIX) else None
