"""`toolyard usage`: what was used and cost, from the store or through the server."""

from pathlib import Path

from cli.process import run_toolyard, start_server


def test_usage_is_shown_from_the_store_and_through_the_server(tmp_path: Path) -> None:
    assert run_toolyard(tmp_path, "chat", "hello", "--model", "toolyard:offline").code == 0
    shown = run_toolyard(tmp_path, "usage", "--by", "user,model")
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[0] == ["user", "model", "turns", "uses", "input", "cached", "output", "cost"]
    assert rows[1][:4] == ["local", "toolyard:offline", "1", "0"]
    assert rows[1][-2:] == ["0.000000", "USD"], "a model of this machine costs nothing"
    heading, line = run_toolyard(tmp_path, "usage", "--by", "model", "--csv").out.splitlines()
    assert heading.startswith("model,currency,cost,cost_micros,turns,")
    assert line.startswith("toolyard:offline,USD,0.0,0,1,")
    with start_server(tmp_path):
        assert run_toolyard(tmp_path, "usage", "--by", "user,model").out == shown.out
    assert "Nothing was used" in run_toolyard(tmp_path, "usage", "--from", "2020-01-01", "--to", "2020-01-31").out


def test_a_wrong_day_or_name_is_wrong_usage(tmp_path: Path) -> None:
    for words in (("--from", "yesterday"), ("--by", "planet")):
        shown = run_toolyard(tmp_path, "usage", *words)
        assert shown.code == 2
        assert words[0] in shown.errors
