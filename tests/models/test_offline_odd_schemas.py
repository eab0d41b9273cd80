"""Whatever a tool's schema is and whatever is said, the planner goes on: it asks, calls or says that it cannot."""

from datetime import datetime

import pytest

from toolyard.core.tools import Tool
from toolyard.models._offline.matching import Matcher
from toolyard.models._offline.profiles import profile_of
from toolyard.models._offline.progress import advance
from toolyard.models._offline.requests import understand
from toolyard.models._offline.wording import question

NOW = datetime(2026, 11, 15, 10, 0)


def properties(**given: object) -> dict[str, object]:
    return {"type": "object", "properties": given, "required": list(given)}


SCHEMAS: dict[str, dict[str, object]] = {
    "nothing": {},
    "a circle": properties(level={"$ref": "#/$defs/A"}) | {"$defs": {"A": {"$ref": "#/$defs/A"}}},
    "choices of any kind": properties(level={"enum": [1, 2.5, None, True, "x", {"a": 1}, [1]]}),
    "a list of choices": properties(level={"type": "array", "items": {"enum": ["red", "blue"]}}),
    "several types": properties(level={"type": ["string", "null"]}, times={"type": ["integer", "null"]}),
    "no pattern": properties(level={"type": "string", "pattern": "(["}),
    "a huge pattern": properties(level={"type": "string", "pattern": r"^\d{99999999999}$"}),
    "lists": properties(level={"type": "array", "items": {"type": "integer"}}, amount={"type": "number"}),
    "days": properties(d={"type": "string", "format": "date"}, t={"type": "string", "format": "time"}),
    "no schemas": {"type": "object", "properties": {"x": True, "y": None, "": {"enum": "abc"}}, "required": "x"},
}
SAID = (
    "", "?", "。。", "\x00", "😀 delete 😀", "set the level to 2", f"set the level to {'9' * 400}", "1" * 2000,
    "a" * 5000, "把第三个删了，然后加两个" * 40, "turn it off", "send 1,000,000 to 5 or 6", "from to from to",
    "first 2 last 3 of", "a:b:c: d", "2026-13-45 at 99:99", "除了", "T-1042 and T-1043 and", "''\"\"“”", "- 5 k 万",
    "red and blue on 2 May",
)  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("name", ["set_level", "delete_thing", "get_thing", "x"])
def test_it_goes_on(schema: dict[str, object], name: str) -> None:
    tool = Tool(name=name, description="Set a level. 设置级别", parameters=schema, examples=("把级别设为三",))
    matcher = Matcher([profile_of(tool, "")])
    for message in SAID:
        requests = understand(message, matcher, NOW).requests
        asked = [question(one, one.missing, language) for one in requests if one.missing for language in ("en", "zh")]
        wanted, ended = advance([one for one in requests if not one.missing], ())
        assert all(asked)
        assert {one.tool for one in wanted} <= {name}
        assert ended == []
