"""What is known of a request before its route is: who comes, and under which correlation id."""

from collections.abc import Mapping

from litestar import Request
from litestar.datastructures import State
from msgspec import Struct

from toolyard.core.caller import Caller

VISIT = "toolyard.visit"

Visitor = Request[object, object, State]


class Visit(Struct, frozen=True, kw_only=True):
    caller: Caller
    correlation_id: str


def visit_of(scope: Mapping[str, object]) -> Visit:
    visit = scope.get(VISIT)
    assert isinstance(visit, Visit), "a request came past the door"
    return visit
