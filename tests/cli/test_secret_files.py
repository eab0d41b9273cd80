"""Secrets that a file holds: which variables name one, and what is refused."""

from pathlib import Path

import pytest

from toolyard.cli import main
from toolyard.cli.secret_files import MAX_BYTES, read_secret_files
from toolyard.core.errors import Misconfigured


def write(folder: Path, content: bytes) -> str:
    (folder / "secret").write_bytes(content)
    return str(folder / "secret")


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "TOOLYARD_MODEL_KEY", "TOOLYARD_SECRET", "OIDC_SECRET", "PGPASSWORD"]
)
def test_a_secret_is_read_from_its_file_without_the_end_of_the_line(tmp_path: Path, name: str) -> None:
    environment = {f"{name}_FILE": write(tmp_path, b" a secret \n"), "HOME": "/"}
    read_secret_files(environment)
    assert environment == {name: " a secret ", "HOME": "/"}


def test_an_empty_file_and_an_empty_variable_set_nothing(tmp_path: Path) -> None:
    environment = {"OPENAI_API_KEY_FILE": write(tmp_path, b"\n"), "TOOLYARD_SECRET_FILE": ""}
    read_secret_files(environment)
    assert environment == {}


@pytest.mark.parametrize(
    "name",
    [
        "SSL_CERT_FILE",
        "TOOLYARD_POSTGRES__PASSWORD_FILE",
        "TOOLYARD_JWT__JWKS_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "RESTIC_PASSWORD_FILE",
    ],
)
def test_files_of_settings_and_of_other_programs_stay_as_they_are(name: str) -> None:
    environment = {name: "/nowhere"}
    read_secret_files(environment)
    assert environment == {name: "/nowhere"}


def test_a_secret_that_is_also_a_variable_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, b"one")
    with pytest.raises(Misconfigured, match="OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set"):
        read_secret_files({"OPENAI_API_KEY": "two", "OPENAI_API_KEY_FILE": file})


@pytest.mark.parametrize("content", [b"\0", b"\xff", b"x" * (MAX_BYTES + 1)])
def test_a_file_that_cannot_be_a_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Misconfigured, match="the file of PGPASSWORD_FILE cannot be read"):
        read_secret_files({"PGPASSWORD_FILE": write(tmp_path, content)})


def test_the_command_names_a_missing_file_and_does_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOOLYARD_SECRET_FILE", "/nowhere/secret")
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    out, errors = capsys.readouterr()
    assert (ended.value.code, out) == (1, "")
    expected = "the file of TOOLYARD_SECRET_FILE cannot be read: /nowhere/secret: No such file or directory"
    assert errors == f"toolyard: {expected}\n"
