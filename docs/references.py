"""Write the generated parts of the reference: the routes and schemas of `http.md`, and the commands of `cli.md`.

Run `python docs/references.py` after changing a route, a struct of one or a command; a test fails while they differ.
"""

import argparse
import ast
import asyncio
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from toolyard import Yard
from toolyard.cli import build_parser
from toolyard.testing import Scripted

FOLDER = Path(__file__).parent / "reference"
GENERATED = re.compile(r"(<!-- generated: (\w+) ?(\S*) -->\n).*?(<!-- end of what is generated -->)", re.DOTALL)
Json = dict[str, Any]


class FieldNotes:
    """What the docstrings of fields say, which the OpenAPI document does not have."""

    def __init__(self, folder: Path) -> None:
        self._notes: dict[str, dict[str, str]] = {}
        self._bases: dict[str, list[str]] = {}
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef):
                    self._bases[node.name] = [ast.unparse(base) for base in node.bases]
                    self._notes[node.name] = dict(self._list_notes(node))

    @staticmethod
    def _list_notes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
        for field, note in pairwise(node.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(note, ast.Expr):
                yield field.target.id, " ".join(str(ast.literal_eval(note.value)).split())

    def find(self, name: str, field: str) -> str:
        """Return the docstring of a field of the class, or of a class that it inherits from."""
        note = self._notes.get(name, {}).get(field)
        if note is not None:
            return note
        return next(filter(None, (self.find(base, field) for base in self._bases.get(name, []))), "")


NOTES = FieldNotes(Path(__file__).parent.parent / "src" / "toolyard" / "surfaces")


def render_pages() -> dict[Path, str]:
    """Return the pages with generated parts as they have to be, by path."""
    document = asyncio.run(load_openapi())
    pages = {path: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
    return {path: insert_parts(page, path.name, document) for path, page in pages.items() if GENERATED.search(page)}


def insert_parts(page: str, name: str, document: Json) -> str:
    """Return a page with what stands between its marks generated anew."""

    def replace(marks: re.Match[str]) -> str:
        part = re.sub(r"\n{3,}", "\n\n", "\n".join(describe(marks[2], marks[3], document))).strip("\n")
        if name != "http.md":
            part = part.replace("](#", "](http.md#")  # all schemas are there
        return f"{marks[1]}\n{part}\n\n{marks[4]}"

    return GENERATED.sub(replace, page)


def describe(what: str, subject: str, document: Json) -> Iterator[str]:
    """Yield the lines of a generated part: `commands`, all `routes` or those below a path, a `schema`, or `events`."""
    match what:
        case "commands":
            yield from describe_commands(build_parser())
        case "routes" if subject:
            yield from describe_routes_below(subject, document)
        case "routes":
            yield from describe_routes(document)
        case "schema":
            yield from describe_fields(subject, document["components"]["schemas"][subject])
        case "events":
            yield from describe_events(document)
        case _:
            raise ValueError(f"nothing generates {what!r}")


async def load_openapi() -> Json:
    """Return the OpenAPI document, as a server without tools returns it."""
    sent: list[bytes] = []

    async def send(message: dict[str, object]) -> None:
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        sent.append(body)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    path = "/openapi.json"
    scope: dict[str, object] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"",
        "headers": [(b"host", b"localhost")], "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    async with Yard(model=Scripted([])) as yard:
        await yard.asgi()(scope, receive, send)
    return json.loads(b"".join(sent))


def describe_routes(document: Json) -> Iterator[str]:
    """Yield the routes by tag, each with its parameters, body and responses, then the schemas."""
    by_tag: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault((operation.get("tags") or ["other"])[0], []).append((method.upper(), path, operation))
    for tag, operations in by_tag.items():
        yield f"\n### {tag}\n"
        for method, path, operation in operations:
            yield from describe_route(method, path, operation)
    yield "\n## Schemas\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from describe_schema(name, schema)


def describe_route(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"\n#### `{method} {path}`\n"
    yield f"{operation.get('description', '')}\n"
    if parameters := operation.get("parameters"):
        yield "| parameter | in | type | |\n|---|---|---|---|"
        for parameter in parameters:
            about = cell(parameter.get("description", "")) or ("required" if parameter.get("required") else "")
            yield f"| `{parameter['name']}` | {parameter['in']} | {type_of(parameter['schema'])} | {about} |"
        yield ""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body: {type_of(content['schema'])} (`{kind}`)\n"
    responses = [
        line for status, response in operation["responses"].items() for line in response_lines(status, response)
    ]
    failures = sorted(status for status in operation["responses"] if not status.startswith("2"))
    yield "\n".join(responses) + "\n"
    if failures:
        yield f"Errors: {', '.join(failures)}, each with {link_of('ErrorBody')}\n"


def response_lines(status: str, response: Json) -> Iterator[str]:
    if status.startswith("2"):
        contents = response.get("content", {})
        kinds = [f"{describe_content(content['schema'])} (`{kind}`)" for kind, content in contents.items()]
        yield f"Response {status}: {' or '.join(kinds) or 'no body'}\n"


def describe_content(schema: Json) -> str:
    """Return the type of a response, or of the `data` of its events."""
    data = schema.get("properties", {}).get("data", {})
    if "contentSchema" in data:
        return f"events of {type_of(data['contentSchema'])}"
    return f"events: {data['description']}" if "externalDocs" in schema else type_of(schema)


def describe_routes_below(prefix: str, document: Json) -> Iterator[str]:
    """Yield the routes whose path begins with a prefix, each with the fields of its body and of its response."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items() if path.startswith(prefix) else ():
            yield from describe_route(method.upper(), path, operation)
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            names = re.findall(r"#/components/schemas/(\w+)", json.dumps(bodies))
            for name in dict.fromkeys(names):
                if name not in ("ErrorBody", "StreamEvent"):
                    yield f"\n{link_of(name)}:\n"
                    yield from describe_fields(name, schemas[name])


def describe_events(document: Json) -> Iterator[str]:
    """Yield the events of the server's own streams."""
    schemas = document["components"]["schemas"]
    for choice in schemas["StreamEvent"]["anyOf"]:
        name = choice["$ref"].rpartition("/")[2]
        yield f"\n### {schemas[name]['properties']['type']['enum'][0]}\n"
        yield f"{schemas[name]['description']}\n"
        yield from describe_fields(name, schemas[name])


def describe_schema(name: str, schema: Json) -> Iterator[str]:
    yield f"\n### {name}\n"
    if "description" in schema:
        yield f"{schema['description']}\n"
    if schema.get("properties"):
        yield from describe_fields(name, schema)
    else:
        yield f"{type_of(schema)}\n"


def describe_fields(name: str, schema: Json) -> Iterator[str]:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    yield "| field | type | |\n|---|---|---|"
    for field, about in properties.items():
        snake_case = re.sub(r"(?<=[a-z])[A-Z]", lambda letter: f"_{letter[0].lower()}", field)
        note = about.get("description") or NOTES.find(name, field) or NOTES.find(name, snake_case)
        notes = [cell(note), "required" if field in required else ""]
        yield f"| `{field}` | {type_of(about)} | {' '.join(note for note in notes if note)} |"
    yield ""


def type_of(schema: Json) -> str:
    """Return a schema's type as one line, with links to named schemas."""
    if "$ref" in schema:
        return link_of(schema["$ref"].rpartition("/")[2])
    for joined in ("oneOf", "anyOf"):
        if joined in schema:
            return " or ".join(type_of(choice) for choice in schema[joined])
    if "enum" in schema:
        return " · ".join(f"`{json.dumps(value, ensure_ascii=False)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else kind


def link_of(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def describe_commands(command: argparse.ArgumentParser) -> Iterator[str]:
    """Yield each command and its actions: what it does, its arguments and its examples."""
    # argparse's own text is not used, since its layout depends on the version of Python.
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield f"\n{'##' if command.prog == 'toolyard' else '###'} {child.prog}\n"
                yield from describe_command(child)
                yield from describe_commands(child)


def describe_command(command: argparse.ArgumentParser) -> Iterator[str]:
    if command.description:
        yield f"{command.description}\n"
    arguments = [
        action
        for action in command._actions
        if not isinstance(action, argparse._SubParsersAction | argparse._HelpAction)
        and action.help is not argparse.SUPPRESS
    ]
    if arguments:
        yield "| argument | |\n|---|---|"
        for action in arguments:
            yield f"| `{name_argument(action)}` | {cell(action.help or '')} |"
        yield ""
    if command.epilog:
        yield f"```text\n{command.epilog.rstrip()}\n```\n"


def name_argument(action: argparse.Action) -> str:
    """Return an argument as it is written: its name or names, and what follows."""
    if isinstance(action.metavar, str):
        value = action.metavar
    elif action.choices is not None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        value = action.dest.upper()
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def main() -> None:
    for path, page in render_pages().items():
        path.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
