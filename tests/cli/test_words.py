"""The words of the command: help, usage, and what is wrong with a configuration. All before anything is started."""

import gc
import shlex
from pathlib import Path

import pytest

from toolyard.cli import main, parse_arguments
from toolyard.cli.commands import COMMANDS


def run_main(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("prot = 1", "toolyard.toml line 1: prot is not a setting; did you mean port?"),
        ("\nhost = 7", "toolyard.toml line 2: host must be a text"),
        ("model = 'gpt'", "'gpt' is not a model: use toolyard:offline, one of openai:…"),
        ("tools = ['./none.py']", "there is no file"),
        ("[tool.delete]\napproval = 'always'", "[tool.delete]: there is no tool named 'delete'"),
        ("default_tools = ['delete']", "default_tools names 'delete', which is not a tool"),
    ],
)
def test_a_wrong_configuration_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], toml: str, complaint: str
) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(toml)
    assert run_main("serve", "--config", str(file), "--port", "0", "--store", "memory:") == 1
    assert gc.isenabled()
    out, errors = capsys.readouterr()
    assert complaint in errors and errors.startswith("toolyard: ") and errors.count("\n") == 1 and out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["serve", "--nonsense"],
        ["keys"],
        ["keys", "add", "me"],
        ["keys", "add", "", "--user", "me", "--store", "memory:"],
        ["tools", "call", "x", "["],
        ["tools", "call", "x", "[1]"],
        ["chat", "--demo", "--url", "http://127.0.0.1:1"],
        ["chat", "--url", "nowhere"],
        ["trace", "x", "--url", "http://127.0.0.1:1", "--key", "schlüssel"],
    ],
)
def test_a_command_that_makes_no_sense_ends_with_2(words: list[str]) -> None:
    assert run_main(*words) == 2


@pytest.mark.parametrize(
    "words",
    [["serve"], ["chat"], ["tools"], ["tools", "call"], ["mcp"], ["keys"], ["keys", "add"], ["trace"], ["doctor"]],
)
def test_every_help_has_examples(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(*words, "--help") == 0
    assert f"\nexamples:\n  toolyard {words[0]}" in capsys.readouterr().out


def test_the_help_of_the_whole_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("--help") == 0
    out = capsys.readouterr().out
    assert all(f"\n    {name} " in out for name in ("serve", "chat", "tools", "keys", "trace", "doctor"))


def test_the_help_is_shown_if_there_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("--help") == 0
    expected = capsys.readouterr().out
    assert run_main() == 0
    assert capsys.readouterr() == (expected, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_its_listed_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(name, "--help") == 0
    lines = capsys.readouterr().out.partition("\n\n")[2].partition("\n\n")[0].split()
    about = COMMANDS[name]
    assert " ".join(lines) == f"{about[0].upper()}{about[1:]}."


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["srve"], "serve"),
        (["--verison"], "--version"),
        (["serve", "--prot", "80"], "--port"),
        (["serve", "--prot=80"], "--port"),
        (["serve", "--log-level", "debg"], "debug"),
        (["keys", "lst"], "list"),
        (["keys", "add", "me", "--user", "me", "--exprise", "7d"], "--expires"),
    ],
)
def test_what_was_probably_meant_is_suggested(words: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(*words) == 2
    assert capsys.readouterr().err.endswith(f"; did you mean {meant}?\n")


@pytest.mark.parametrize("words", [["xyzzy"], ["serve", "--xyzzy"], ["--xyzzy", "serve", "--port", "1"]])
def test_nothing_is_suggested_if_nothing_is_near(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(*words) == 2
    errors = capsys.readouterr().err
    assert "xyzzy" in errors and "--port 1" not in errors and "did you mean" not in errors


def test_every_command_in_the_documents_is_one() -> None:
    pages = [page.read_text("utf-8") for page in (Path(__file__).parents[2] / "docs").glob("**/*.md")]
    lines = [line for page in pages for line in page.splitlines() if line.startswith("toolyard ")]
    assert len(lines) > 20
    for line in lines:
        assert parse_arguments(shlex.split(line, comments=True)[1:])


def test_a_server_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("trace", "x", "--url", "http://127.0.0.1:1", "--store", "memory:") == 1
    errors = capsys.readouterr().err
    assert "no server answers at http://127.0.0.1:1" in errors and errors.count("\n") == 1
