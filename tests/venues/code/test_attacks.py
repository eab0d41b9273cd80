"""Programs that attack their sandbox, or ask for too much: each ends in words, and the server goes on."""

import asyncio
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from support import TEST_TIMEOUT_S
from toolyard import Tool, ToolError, Yard
from toolyard.app import Wiring
from toolyard.core.settings.limits import Limits
from toolyard.testing import Scripted
from toolyard.venues.code.stubs import MAX_SCHEMAS, build_stubs, name_function
from venues.code.shop import ProgramShop

LIMITS = Limits(
    program_calls=5,
    program_step_seconds=0.5,
    program_seconds=1.0,
    program_memory_bytes=16 * 1024 * 1024,
    program_printed_bytes=100,
    program_value_bytes=50_000,
    program_argument_bytes=1000,
)


async def _attack(shop: ProgramShop, code: str, limits: Limits = LIMITS) -> tuple[object, str]:
    """Return the value of a program, or why it failed. The same yard then runs another program."""
    wiring = Wiring(model=Scripted([]), tools=shop.tools, code=True, limits=limits)
    async with asyncio.timeout(TEST_TIMEOUT_S), Yard.from_wiring(wiring) as yard:
        try:
            attacked: tuple[object, str] = ((await yard.run_code(code)).output, "")
        except ToolError as error:
            attacked = (None, f"{error.error_type}: {error.message}")
        assert (await yard.run_code("await get_text(text='still here')")).output == "still here"
        return attacked


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("open('/etc/passwd').read()", "error"),
        ("from pathlib import Path\nPath('/etc/passwd').read_text()", "Error"),
        ("from pathlib import Path\nPath('/tmp/escaped').write_text('x')", "Error"),
        ("import os\nos.getenv('PATH')", "Error"),
        ("import os\nos.environ['PATH']", "Error"),
        ("import os\nos.system('id')", "error"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", "error"),
        ("import subprocess\nsubprocess.run(['id'])", "error"),
        ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1')", "error"),
        ("__import__('os').system('id')", "error"),
        ("(1).__class__.__base__.__subclasses__()", "error"),
        ("while True:\n    pass", "timeout: the program computed for more than 0.5 s between two calls"),
        (
            "import asyncio\nwhile True:\n    await asyncio.sleep(1)",
            "timeout: the program computed for more than 0.5 s",
        ),
        ("raise TimeoutError('turn time limit exceeded')", "program_error: Traceback"),
        ("x = [0]\nwhile True:\n    x = x + x", "MemoryError"),
        ("'x' * 10**9", "MemoryError"),
        ("def f(n):\n    return f(n + 1)\nf(0)", "RecursionError"),
        ("import re\nre.match('(a+)+$', 'a' * 40 + 'b')", ""),
        ("10 ** 10 ** 8", "Error"),
        ("x = 'x' * 60_000\nx", "a program may return 50,000"),
        ("await get_blob(size=60_000)", "more than the 50,000 that a program gets"),
        ("await get_text(text='x' * 1001)", "a call may have 1,000"),
        ("for n in range(6):\n    await get_text(text='x')", "a program may make 5 calls"),
        ("await send(text=float('nan'))", "type_error"),
        ("from typing import Any\nx: Any = float('nan')\nawait send(text=x)", "nan, which JSON does not have"),
        ("from typing import Any\nx: Any = b'abc'\nawait send(text=x)", "of type bytes, which JSON does not have"),
        ("from typing import Any\nx: Any = lambda: 1\nawait send(text=x)", "which JSON does not have"),
        ("from typing import Any\nx: Any = {1: 2}\nawait send(text=x)", "a key of value['text'] is of type int"),
        ("from typing import Any\nx: Any = 2**70\nawait send(text=x)", "more than 64 bits"),
        ("a = [0] * 1000\nb = [a] * 1000\nc = [b] * 1000\nc", "a program may return 50,000"),
        (
            "from typing import Any\n"
            "a = [0] * 1000\nb = [a] * 1000\nx: Any = [b] * 1000\nf: Any = get_text\nawait f(text=x)",
            "a call may have 1,000",
        ),
        ("x = (1,)\n" + "x = (x, x)\n" * 14 + "x + 1", "type_error"),
        ("x = (1,)\n" + "x = (x, x)\n" * 40 + "x + 1", "timeout: the program took more than 0.5 s at one place"),
        ("float('nan')", "nan, which JSON does not have"),
        ("lambda: 1", "which JSON does not have"),
        ("from typing import Any\nf: Any = send\nawait f('positional')", "keyword arguments only"),
    ],
)
async def test_an_attack_ends_in_words_and_changes_nothing(code: str, words: str) -> None:
    shop = ProgramShop()
    value, error = await _attack(shop, code)
    assert len(error) < 5000
    if words:
        assert value is None
        assert words in error
    assert shop.actions == []


async def test_the_time_of_all_steps_is_limited_as_well() -> None:
    limits = replace(LIMITS, program_step_seconds=TEST_TIMEOUT_S, program_seconds=0.3)
    _, error = await _attack(ProgramShop(), "await get_text(text='x')\nwhile True:\n    pass", limits)
    assert error == "timeout: the program computed for more than 0.3 s"


async def test_a_program_that_goes_on_calling_after_its_last_call_is_stopped() -> None:
    limits = replace(LIMITS, program_step_seconds=TEST_TIMEOUT_S, program_seconds=TEST_TIMEOUT_S)
    code = "while True:\n    try:\n        await get_text(text='x')\n    except RuntimeError:\n        pass"
    _, error = await _attack(ProgramShop(), code, limits)
    assert error.endswith("RuntimeError: the program was stopped after 1100 calls and requests")


async def test_a_flood_of_prints_is_cut() -> None:
    wiring = Wiring(model=Scripted([]), tools=ProgramShop().tools, code=True, limits=LIMITS)
    async with Yard.from_wiring(wiring) as yard:
        result = await yard.run_code("for n in range(10_000):\n    print('x' * 100)\n1")
        assert "1,009,900 more bytes were printed" in result.calls[0].content
        assert len(result.calls[0].content) < 300
        result = await yard.run_code("print('xx' + '€' * 50)\n1")
        assert f"xx{'€' * 32}\\n… [53 more bytes were printed]" in result.calls[0].content


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("async def add(item):\n    return 'mine'\nawait add(item='x')", "mine"),
        ("def print(x):\n    return None\n1", 1),
    ],
)
async def test_a_name_that_shadows_a_tool_is_the_program_s_own(code: str, value: object) -> None:
    shop = ProgramShop()
    assert await _attack(shop, code) == (value, "")
    assert shop.actions == []


async def test_a_tool_can_be_handed_around_as_a_function() -> None:
    code = "import asyncio\nasync def each(f, texts):\n    return await asyncio.gather(*[f(text=t) for t in texts])\n"
    assert await _attack(ProgramShop(), f"{code}await each(get_text, ['a', 'b'])") == (["a", "b"], "")


async def test_time_and_chance_are_the_same_whenever_a_program_is_run_again() -> None:
    """A program that asks for them between calls comes to the same arguments, or it could not go on after a wait."""
    code = """
import random, time, datetime
before = [random.random(), time.time(), str(datetime.datetime.now())]
time.sleep(100)
first = await get_text(text=str(before))
second = await get_text(text=str([random.random(), time.time()]))
[first == str(before), len(second) > 0]
"""
    value, error = await _attack(ProgramShop(), code)
    assert (value, error) == ([True, True], "")


async def test_what_a_failed_program_did_is_told_to_the_application() -> None:
    shop = ProgramShop()
    async with Yard(tools=shop.tools, model=Scripted([]), code=True) as yard:
        with pytest.raises(ToolError) as raised:
            await yard.run_code("await add(item='a')\n1 / 0")
    calls = raised.value.details["calls"]
    assert isinstance(calls, list)
    assert isinstance(calls[0], Mapping)
    assert calls[0]["tool"] == "add"
    assert "ZeroDivisionError" in raised.value.message


def test_a_schema_that_refers_to_itself_everywhere_is_declared_in_a_few_lines() -> None:
    node = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/node"} for number in range(30)}}
    returned: dict[str, object] = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    wide: dict[str, object] = {
        "$ref": "#/$defs/a0",
        "$defs": {f"a{level}": _build_wide_schema(level + 1) for level in range(5)},
    }
    stubs = build_stubs({"walk": Tool(name="walk", returns=returned), "list_all": Tool(name="list_all", returns=wide)})
    assert stubs.count("p29: NotRequired[Any]") == 1
    assert stubs.count("\n") <= 2 * MAX_SCHEMAS


def _build_wide_schema(next_level: int) -> dict[str, object]:
    return {"type": "object", "properties": {f"q{number}": {"$ref": f"#/$defs/a{next_level}"} for number in range(10)}}


def test_types_of_the_same_name_are_told_apart() -> None:
    def build_tool(name: str, parameter: str, kind: str) -> Tool:
        inner = {"type": "object", "properties": {"id": {"type": kind}}, "required": ["id"]}
        return Tool(name=name, parameters={"type": "object", "properties": {parameter: inner}, "required": [parameter]})

    create, create_page = build_tool("create", "page_parent", "string"), build_tool("create_page", "parent", "integer")
    stubs = build_stubs({"create": create, "create_page": create_page, name_function("Any"): Tool(name="Any")})
    assert "page_parent: _create_page_parent)" in stubs
    assert "parent: _create_page_parent_)" in stubs
    assert "async def Any_(" in stubs
