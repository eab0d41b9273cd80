"""Places in a list that a text points to."""

import pytest

from toolyard.models._offline.amounts import which


@pytest.mark.parametrize(
    ("said", "place"),
    [("第一个", 0), ("the second one", 1), ("最后一个", -1), ("the last one", -1), ("第0个", None), ("第零个", None)],
)
def test_a_place_that_no_list_has_is_not_its_end(said: str, place: int | None) -> None:
    assert which(said) == place
