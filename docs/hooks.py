"""Hooks of the documentation build (`make docs`): generated references, and pages that live outside of docs/."""

import argparse
import asyncio
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from toolyard import Yard
from toolyard.cli import build_parser
from toolyard.testing import Scripted

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/household/README.md": "project/household.md",
    "examples/shop/README.md": "project/shop.md",
    "examples/warehouse/README.md": "project/warehouse.md",
    "web/client/README.md": "reference/typescript.md",
}
"""Pages that stand elsewhere in the repository, and where the site has them."""
FROM_OUTSIDE = {site: source for source, site in OUTSIDE.items()}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
Json = dict[str, Any]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, site in OUTSIDE.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = FROM_OUTSIDE.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    markdown = LINK.sub(lambda link: site_link(link[1], link[2], source, page.file.src_uri), markdown)
    if "<!-- openapi -->" in markdown:
        markdown = markdown.replace("<!-- openapi -->", "\n".join(describe_routes(asyncio.run(load_openapi()))))
    if "<!-- commands -->" in markdown:
        markdown = markdown.replace("<!-- commands -->", "\n".join(describe_commands(build_parser())))
    return markdown


def site_link(text: str, url: str, source: str, page: str) -> str:
    """Return a link of the repository as a link of the site. A file that the site does not have becomes plain text."""
    path, mark, anchor = url.partition("#")
    if not path or ":" in path:
        return f"[{text}]({url})"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if target == "README.md":
        place = "index.md"
    elif target in OUTSIDE:
        place = OUTSIDE[target]
    elif target.startswith("docs/"):
        place = target.removeprefix("docs/")
    else:
        return text
    return f"[{text}]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{mark}{anchor})"


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
    failures = [status for status in operation["responses"] if not status.startswith("2")]
    yield "\n".join(responses) + "\n"
    if failures:
        yield f"Errors: {', '.join(failures)}, each with {link_of('ErrorBody')}\n"


def response_lines(status: str, response: Json) -> Iterator[str]:
    if status.startswith("2"):
        kinds = [f"{type_of(content['schema'])} (`{kind}`)" for kind, content in response.get("content", {}).items()]
        yield f"Response {status}: {' or '.join(kinds) or 'no body'}\n"


def describe_schema(name: str, schema: Json) -> Iterator[str]:
    yield f'\n### <a id="{anchor_of(name)}"></a>{name}\n'
    if "description" in schema:
        yield f"{schema['description']}\n"
    properties = schema.get("properties")
    if not properties:
        yield f"{type_of(schema)}\n"
        return
    required = schema.get("required", [])
    yield "| field | type | |\n|---|---|---|"
    for field, about in properties.items():
        notes = [cell(about.get("description", "")), "required" if field in required else ""]
        yield f"| `{field}` | {type_of(about)} | {' '.join(note for note in notes if note)} |"


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
    return f"[{name}](#{anchor_of(name)})"


def anchor_of(name: str) -> str:
    return f"schema-{name.lower()}"


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def describe_commands(command: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the help of each command and of its actions."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield f"\n{'##' if command.prog == 'toolyard' else '###'} {child.prog}\n\n```text"
                yield f"{child.format_help().rstrip()}\n```"
                yield from describe_commands(child)
