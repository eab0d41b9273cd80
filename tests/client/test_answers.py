"""What both clients hand over: the error of a failed run, and the raw result of an MCP server as a tool returned it."""

import pytest

from client.drivers import DRIVERS, build_package
from client.test_contract import drive_client
from toolyard.core.items import ImagePart, Result
from toolyard.core.settings.texts import get_text
from toolyard.testing import Scripted, call, fail, say, together

CLIENTS = pytest.mark.parametrize("client", list(DRIVERS))


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    build_package()


@CLIENTS
def test_a_failed_run_is_a_sentence_for_people_and_an_error_for_the_app(client: str) -> None:
    record = drive_client(client, [fail("overloaded", "unavailable")])
    assert record.finals == [("failed", get_text("failed", "en"))]
    assert record.errors == [("overloaded", "unavailable")]


@CLIENTS
def test_a_raw_mcp_result_is_unwrapped_into_its_text_its_images_and_its_error(client: str) -> None:
    model = Scripted([together(call("raw_mcp_result"), call("raw_mcp_result", failed=True)), say("ok")])
    assert drive_client(client, model).finals == [("done", "ok")]
    stock, sold_out = [item for item in model.requests[1].history if isinstance(item, Result)]
    assert (stock.outcome, stock.content.splitlines()[0]) == ("ok", "3 in stock")
    assert stock.parts == (ImagePart(url="data:image/png;base64,iVBORw0KGgo="),)
    assert sold_out.outcome == "error" and sold_out.error is not None and sold_out.error.error == "sold out"
