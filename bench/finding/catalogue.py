"""Build five thousand different tools, the same each time.

They belong to 72 services in English, four in Chinese, and MCP's reference servers.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from toolyard.core.tools.definition import Tool

HERE = Path(__file__).parent
TOOL_COUNT = 5000

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


def build_catalogue() -> list[Tool]:
    tools = [*_read_reference_tools(), *_build_service_tools("domains.txt"), *_build_service_tools("domains_zh.txt")]
    further = _build_further_tools()
    tools += itertools.islice(further, TOOL_COUNT - len(tools))
    assert len({tool.name for tool in tools}) == TOOL_COUNT, len(tools)
    return tools


def _read_reference_tools() -> Iterator[Tool]:
    for line in (HERE / "reference.txt").read_text("utf-8").splitlines():
        if line and line[0] not in "#[":
            head, _, description = line.partition(": ")
            name, *parameters = head.split()
            properties = {parameter: {"type": "string"} for parameter in parameters}
            yield Tool(name=name, description=description, parameters={"type": "object", "properties": properties})


# The name, the parameters by name, the objects (name, explanation), and the tools (name, description) that exist only
# in this service.
Service = tuple[str, dict[str, dict[str, object]], list[tuple[str, str]], list[tuple[str, str]]]


def _read_services(file: str) -> Iterator[Service]:
    text = (HERE / file).read_text("utf-8")
    for block in text.split("\n[")[1:]:
        head, *lines = [line for line in block.splitlines() if line]
        name, _, parameters = head.partition("] ")
        pairs = [line.removeprefix("= ").partition(": ")[::2] for line in lines]
        special = [pair for line, pair in zip(lines, pairs, strict=True) if line.startswith("= ")]
        objects = [pair for line, pair in zip(lines, pairs, strict=True) if not line.startswith("= ")]
        yield name, dict(_parse_parameter(parameter) for parameter in parameters.split("; ")), objects, special


def _parse_parameter(text: str) -> tuple[str, dict[str, object]]:
    match = re.fullmatch(r"(\w+)(?:\((.+)\))?: (.+)", text)
    assert match, text
    name, choices, description = match.groups()
    schema: dict[str, object] = {"type": "string", "description": description[0].upper() + description[1:]}
    return name, schema | ({"enum": choices.split("|")} if choices else {})


def _build_service_tools(file: str) -> Iterator[Tool]:
    for number, (service, parameters, objects, special) in enumerate(_read_services(file)):
        for name, description in special:
            some = dict(list(parameters.items())[:3])
            yield _build_tool(f"{service}_{name}", description, some, list(some)[:1])
        for object_name, explanation in objects:
            for verb, (styles, takes) in COMMON.items():
                style = styles[number % len(styles)]
                yield _build_object_tool(service, verb, style, takes, object_name, explanation, parameters)


def _build_further_tools() -> Iterator[Tool]:
    """Yield one more tool for each object, with the verbs of FURTHER in turn."""
    verbs = itertools.cycle(FURTHER.items())
    for service, parameters, objects, _ in _read_services("domains.txt"):
        for object_name, explanation in objects:
            verb, (style, takes) = next(verbs)
            yield _build_object_tool(service, verb, style, takes, object_name, explanation, parameters)


def _build_object_tool(
    service: str,
    verb: str,
    style: str,
    takes: tuple[str, ...],
    object_name: str,
    explanation: str,
    parameters: dict[str, dict[str, object]],
) -> Tool:
    """Return the tool that does something with an object, such as `crm_create_contact`."""
    object_name, _, chinese = object_name.partition("|")
    singular = object_name.replace("_", " ")
    plural = (
        singular
        if singular.endswith("s")
        else f"{singular[:-1]}ies"
        if re.search("[^aeiou]y$", singular)
        else f"{singular}es"
        if singular.endswith("sh")
        else f"{singular}s"
    )
    properties: dict[str, dict[str, object]] = {}
    for name in takes:
        if name == "*":
            properties |= parameters
        else:
            properties[f"{object_name}_id" if name == "id" else name] = GENERAL[name]
    takes_one = verb in ("create", "get", "update", "delete")
    tool_name = f"{service}_{verb}_{object_name if takes_one else plural.replace(' ', '_')}"
    if chinese:
        description = f"{CHINESE[verb].format(one=chinese)}。{chinese}：{explanation}。"
        return _build_tool(tool_name, description, properties, [])
    action = style.format(one=singular, many=plural, service=service)
    description = f"{action}. {singular[0].upper()}{singular[1:]}: {explanation}."
    return _build_tool(tool_name, description, properties, [] if "limit" in takes else list(properties)[:1])


def _build_tool(name: str, description: str, properties: dict[str, dict[str, object]], required: list[str]) -> Tool:
    schema: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
    return Tool(name=name, description=description, parameters=schema | ({"required": required} if required else {}))


def read_queries(file: str) -> list[tuple[str, frozenset[str]]]:
    """Return the queries or requests of a file, each with the tools that are suitable for it."""
    lines = (HERE / file).read_text("utf-8").splitlines()
    pairs = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(query, frozenset(names.split(","))) for query, names in pairs]
