"""Five thousand different tools, the same each time: 72 services in English, four in Chinese, MCP's own servers."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from toolyard.core.tools import Tool

HERE = Path(__file__).parent
WANTED = 5000

COMMON: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "create": (
        ("Create a new {one}", "Add a {one}", "Register a {one}", "Make a new {one} in the {service} service"),
        ("*",),
    ),
    "list": (
        ("List all {many}", "Return the {many} of the account, page by page", "Get every {one}, newest first"),
        ("limit", "cursor"),
    ),
    "get": (
        ("Get one {one} by its id", "Retrieve the details of a {one}", "Fetch a single {one}"),
        ("id",),
    ),
    "update": (
        ("Update an existing {one}", "Change fields of a {one}", "Modify a {one}; what is not given stays"),
        ("id", "*"),
    ),
    "delete": (
        ("Delete a {one} for good", "Remove a {one}", "Permanently delete one {one}"),
        ("id",),
    ),
    "search": (
        ("Search {many} by text", "Find {many} that match a query", "Look up {many} with filters"),
        ("query", "limit"),
    ),
}
CHINESE: dict[str, str] = {
    "create": "新建{one}",
    "list": "列出全部{one}",
    "get": "查看{one}的详情",
    "update": "修改{one}",
    "delete": "删除{one}",
    "search": "搜索{one}",
}
FURTHER: dict[str, tuple[str, tuple[str, ...]]] = {
    "export": ("Export {many} as CSV or JSON", ("format",)),
    "archive": ("Archive a {one}: it is kept but no longer shown", ("id",)),
    "duplicate": ("Duplicate a {one}", ("id",)),
    "count": ("Count {many}", ("query",)),
    "share": ("Share a {one} with another person", ("id", "person")),
}
GENERAL: dict[str, dict[str, object]] = {
    "id": {"type": "string", "description": "The id"},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many to return"},
    "cursor": {"type": "string", "description": "Where the last page ended"},
    "query": {"type": "string", "description": "The words to look for"},
    "format": {"type": "string", "enum": ["csv", "json"]},
    "person": {"type": "string", "description": "The email address of the other person"},
}


def catalogue() -> list[Tool]:
    tools = [*_reference(), *_services("domains.txt"), *_services("domains_zh.txt")]
    further = _further()
    tools += itertools.islice(further, WANTED - len(tools))
    assert len({tool.name for tool in tools}) == WANTED, len(tools)
    return tools


def _reference() -> Iterator[Tool]:
    for line in (HERE / "reference.txt").read_text("utf-8").splitlines():
        if line and line[0] not in "#[":
            head, _, said = line.partition(": ")
            name, *parameters = head.split()
            properties = {parameter: {"type": "string"} for parameter in parameters}
            yield Tool(name=name, description=said, parameters={"type": "object", "properties": properties})


Service = tuple[str, dict[str, dict[str, object]], list[tuple[str, str]], list[tuple[str, str]]]


def _read(file: str) -> Iterator[Service]:
    text = (HERE / file).read_text("utf-8")
    for block in text.split("\n[")[1:]:
        head, *lines = [line for line in block.splitlines() if line]
        name, _, parameters = head.partition("] ")
        pairs = [line.removeprefix("= ").partition(": ")[::2] for line in lines]
        own = [pair for line, pair in zip(lines, pairs, strict=True) if line.startswith("= ")]
        objects = [pair for line, pair in zip(lines, pairs, strict=True) if not line.startswith("= ")]
        yield name, dict(_parameter(one) for one in parameters.split("; ")), objects, own


def _parameter(text: str) -> tuple[str, dict[str, object]]:
    found = re.fullmatch(r"(\w+)(?:\((.+)\))?: (.+)", text)
    assert found, text
    name, choices, said = found.groups()
    schema: dict[str, object] = {"type": "string", "description": said[0].upper() + said[1:]}
    return name, schema | ({"enum": choices.split("|")} if choices else {})


def _services(file: str) -> Iterator[Tool]:
    for number, (service, parameters, objects, own) in enumerate(_read(file)):
        for name, said in own:
            some = dict(list(parameters.items())[:3])
            yield _tool(f"{service}_{name}", said, some, list(some)[:1])
        for thing, is_what in objects:
            for verb, (styles, takes) in COMMON.items():
                yield _on(service, verb, styles[number % len(styles)], takes, thing, is_what, parameters)


def _further() -> Iterator[Tool]:
    """One more verb for each thing, another one from thing to thing."""
    verbs = itertools.cycle(FURTHER.items())
    for service, parameters, objects, _ in _read("domains.txt"):
        for thing, is_what in objects:
            verb, (said, takes) = next(verbs)
            yield _on(service, verb, said, takes, thing, is_what, parameters)


def _on(
    service: str,
    verb: str,
    style: str,
    takes: tuple[str, ...],
    thing: str,
    is_what: str,
    parameters: dict[str, dict[str, object]],
) -> Tool:
    thing, _, called = thing.partition("|")
    one = thing.replace("_", " ")
    many = (
        one
        if one.endswith("s")
        else f"{one[:-1]}ies"
        if re.search("[^aeiou]y$", one)
        else f"{one}es"
        if one.endswith("sh")
        else f"{one}s"
    )
    properties: dict[str, dict[str, object]] = {}
    for name in takes:
        if name == "*":
            properties |= parameters
        else:
            properties[f"{thing}_id" if name == "id" else name] = GENERAL[name]
    named = f"{verb}_{thing}" if verb in ("create", "get", "update", "delete") else f"{verb}_{many.replace(' ', '_')}"
    if called:
        return _tool(f"{service}_{named}", f"{CHINESE[verb].format(one=called)}。{called}：{is_what}。", properties, [])
    said = f"{style.format(one=one, many=many, service=service)}. {one[0].upper()}{one[1:]}: {is_what}."
    return _tool(f"{service}_{named}", said, properties, [] if "limit" in takes else list(properties)[:1])


def _tool(name: str, said: str, properties: dict[str, dict[str, object]], required: list[str]) -> Tool:
    schema: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
    return Tool(name=name, description=said, parameters=schema | ({"required": required} if required else {}))


def queries(file: str) -> list[tuple[str, frozenset[str]]]:
    """What people ask for, and the tools any of which would serve."""
    lines = (HERE / file).read_text("utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(asked, frozenset(wanted.split(","))) for asked, wanted in pairs]
