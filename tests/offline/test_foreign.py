"""The tools of other people are all there, their data are fresh, and a look-up on the way is judged as one."""

import pytest
from msgspec.structs import replace

from offline.checker import Reason, check
from offline.corpus import FOREIGN, CorpusRequest, ExpectedCall, list_files, load_requests
from offline.worlds import FOREIGN_TOOLS, world
from toolyard.core.items import Result
from toolyard.testing import Scripted, Turn, call, say
from toolyard.venues.function import as_tool

FIND = call("find_events", query="dentist")
CANCEL = call("cancel_event", event_id="ev-103")
DONE_ANSWER = say("Dentist was cancelled.")


def find_dentist_request() -> CorpusRequest:
    """To cancel an appointment, which must be looked up first."""
    return next(request for request in load_requests("calendar", "open") if request.id == "calendar-04")


def test_every_set_has_tools_and_requests_with_ids_of_their_own() -> None:
    assert set(FOREIGN_TOOLS) == set(FOREIGN) == {domain for domain, _ in list_files(FOREIGN)}
    ids = [request.id for domain, half in list_files(FOREIGN) for request in load_requests(domain, half)]
    assert len(set(ids)) == len(ids) >= 256
    assert {id.split("-")[0] for id in ids} == set(FOREIGN)


def test_no_set_has_two_tools_of_one_name() -> None:
    for domain in FOREIGN:
        with world(domain, "usual") as tools:
            names = [tool.definition.name for tool in map(as_tool, tools)]
        assert 4 <= len(set(names)) == len(names) <= 7, domain


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([FIND, CANCEL], []),
        ([call("find_events", query="my appointment"), CANCEL], []),
        ([call("find_events", query="appointment"), FIND, CANCEL], []),
        ([FIND, call("cancel_event", event_id="ev-101")], ["arguments"]),
        ([CANCEL], ["calls"]),
        ([FIND], ["calls"]),
        ([CANCEL, FIND], ["order"]),
        ([FIND, CANCEL, call("list_events")], ["calls"]),
    ],
)
def test_a_look_up_may_ask_for_anything_and_more_than_once_but_must_come_first(
    turns: list[Turn], expected: list[Reason]
) -> None:
    faults = check("calendar", find_dentist_request(), lambda: Scripted([*turns, DONE_ANSWER])).faults
    assert [fault.reason for fault in faults] == expected


@pytest.mark.parametrize(("turns", "right"), [([], True), ([FIND], True), ([FIND, FIND], True), ([CANCEL], False)])
def test_a_look_up_that_may_be_made_may_be_left_out(turns: list[Turn], right: bool) -> None:
    may = ExpectedCall(tool="find_events", lookup="may")
    request = replace(
        find_dentist_request(), exchanges=(replace(find_dentist_request().exchanges[0], calls=((may,),)),)
    )
    assert check("calendar", request, lambda: Scripted([*turns, DONE_ANSWER])).right == right


def test_what_one_request_changed_is_not_there_for_the_next() -> None:
    for _ in range(2):
        model = Scripted([FIND, CANCEL, DONE_ANSWER])
        assert check("calendar", find_dentist_request(), lambda model=model: model).right
        results = [item for item in model.requests[-1].history if isinstance(item, Result)]
        assert [result.outcome for result in results] == ["ok", "ok"]
