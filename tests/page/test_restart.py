"""The server is killed in the middle of an answer and started again: the page goes on by itself, nothing is lost."""

from pathlib import Path

from playwright.sync_api import expect

from page.mortal import open_killable_server
from page.site import HOLD
from page.window import Windows

ANSWER = f"It is written: {HOLD}milk."


def test_a_server_that_is_killed_while_it_answers_is_found_again_and_nothing_is_lost_or_done_twice(
    windows: Windows, tmp_path: Path
) -> None:
    windows.expected_complaint = "net::ERR"
    with open_killable_server(tmp_path) as server:
        window = windows.open_url(server.url)
        window.send("write it down")
        expect(window.answer).to_have_text("It is written:")
        server.kill()
        expect(window.page.get_by_text("Connection lost. Trying again…")).to_be_visible()
        expect(window.answer).to_have_text("It is written:")
        server.start()
        expect(window.page.get_by_text("Connection lost. Trying again…")).to_be_hidden()
        expect(window.thread.get_by_text("The server started again; this answer began anew.")).to_be_visible()
        expect(window.answer).to_have_text("It is written:")
        server.resume()
        expect(window.answer).to_have_text(ANSWER)
        expect(window.button("Stop")).to_be_hidden()
        window.page.reload()
        expect(window.answer).to_have_text(ANSWER)
        expect(window.thread.get_by_text("write it down")).to_have_count(1)
        expect(window.page.get_by_role("group", name="Call of write")).to_have_count(1)
        expect(window.card("write")).to_contain_text("done")
        assert server.written_text == "milk\n"
        # Nothing happens in the conversation any more, and still it is not called lost for ever.
        server.kill()
        expect(window.page.get_by_text("Connection lost. Trying again…")).to_be_visible()
        server.start()
        expect(window.page.get_by_text("Connection lost. Trying again…")).to_be_hidden()
