"""What the page believes the server sends is what the server's structs say."""

import importlib.util
from pathlib import Path
from typing import Protocol, cast

WEB = Path(__file__).parents[2] / "web"


class TypesModule(Protocol):
    PATH: Path

    def render_types(self) -> str: ...


def load_types_module() -> TypesModule:
    spec = importlib.util.spec_from_file_location("make_types", WEB / "make_types.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(TypesModule, module)


def test_the_types_of_the_page_are_those_of_the_server() -> None:
    module = load_types_module()
    assert module.PATH.read_text("utf-8") == module.render_types(), "run python web/make_types.py"


def test_an_event_that_leaves_defaults_out_has_optional_fields_and_an_answer_has_none() -> None:
    text = load_types_module().render_types()
    assert "  arguments?: Record<string, unknown> | null" in text  # of call.approved
    assert "export interface Me {\n  user: string\n  roles: Array<string>\n" in text
    assert '  type: "call.ended"\n  result: Result\n' in text


def test_a_field_that_an_answer_may_lack_is_optional() -> None:
    assert "  change?: string\n" in load_types_module().render_types()  # of an entry of the audit log
