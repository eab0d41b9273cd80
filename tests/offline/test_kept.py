"""What the offline planner does right of the open requests it goes on doing right. The other halves are only scored."""

from functools import cache

from offline.checker import check
from offline.corpus import DOMAINS, FOREIGN, files, load
from toolyard.models.offline import Offline

KNOWN_WRONG = {
    "bank-02",
    "bank-08",
    "email-02",
    "email-06",
    "email-07",
    "email-08",
    "files-08",
    "home-06",
    "hotel-04",
}
"""Requests that are beyond the planner. One that it does right comes off the list."""


@cache
def wrong() -> frozenset[str]:
    return frozenset(
        request.id
        for domain, half in files((*DOMAINS, *FOREIGN))
        if half == "open"
        for request in load(domain, half)
        if not check(domain, request, Offline).right
    )


def test_no_open_request_that_was_right_is_wrong() -> None:
    assert sorted(wrong() - KNOWN_WRONG) == []


def test_no_request_that_is_known_to_be_wrong_has_become_right() -> None:
    assert sorted(KNOWN_WRONG - wrong()) == []
