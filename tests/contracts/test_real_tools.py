"""The tools of real MCP servers, none of them ours, are taken by every provider as each wire sends them."""

from pathlib import Path

import pytest
import pytest_asyncio

from contracts.test_request import WIRES, RequestWire
from models.schema_dialects.dialect_rules import strict_faults
from real_servers import build_npm_server, build_python_server
from support import STAFF, open_yard
from toolyard.core.ports import Offer
from toolyard.core.tools.schema_expansion import MAX_SCHEMAS, measure_schema
from toolyard.models.schema_dialects import convert
from toolyard.testing import say
from wire.local import offer, request, user


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real_tools_offer(tmp_path_factory: pytest.TempPathFactory) -> Offer:
    """All that five servers have, as if a model were shown it at once."""
    folder: Path = tmp_path_factory.mktemp("files")

    servers = {
        "everything": build_npm_server("everything"),
        "files": build_npm_server("filesystem", str(folder)),
        "memory": build_npm_server("memory"),
        "time": build_python_server("time"),
        "git": build_python_server("git"),
    }
    async with open_yard([say("ok")], servers=servers) as yard:
        await yard.ask("hi", caller=STAFF)  # servers are up before the first turn
        return offer(*yard.service.tools.list_usable(STAFF))


@pytest.mark.proves("002.mcp-tools-converted", "002.provider-agnostic")
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_the_tools_of_five_real_servers_are_taken_by_every_provider(wire: RequestWire, real_tools_offer: Offer) -> None:
    body = wire.encode_body(request([user("hi")], tools=real_tools_offer))
    assert wire.faults_of(body) == []
    assert len(real_tools_offer.tools) >= 50
    assert all(tool.name.encode() in body for tool in real_tools_offer.tools)


def test_all_of_them_are_far_below_what_a_schema_may_expand_to(real_tools_offer: Offer) -> None:
    sizes = {tool.name: measure_schema(tool.parameters).schemas for tool in real_tools_offer.tools}
    assert max(sizes.values()) < MAX_SCHEMAS / 100, sizes


def test_all_of_them_can_be_offered_in_strict_mode(real_tools_offer: Offer) -> None:
    assert [
        fault for tool in real_tools_offer.tools for fault in strict_faults(convert(tool.parameters, "openai_strict"))
    ] == []
