"""The secret of a store in a file is made beside it; that of a shared database has to be given."""

import stat
from pathlib import Path

from toolyard.server.secret_file import find_secret, make_secret

GIVEN = "a secret of thirty-two characters"
VARIABLE = {"TOOLYARD_SECRET": GIVEN}


def test_a_secret_is_made_once_beside_the_store_for_its_owner_only(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/data/toolyard.db"
    assert find_secret(store, {})[0] == ""
    make_secret(store, {})
    secret, source = find_secret(store, {})
    file = tmp_path / "data" / "toolyard.db.secret"
    assert len(secret) >= 32 and source.startswith(str(file)) and secret not in source
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    make_secret(store, {})
    assert find_secret(store, {})[0] == secret


def test_a_given_secret_encrypts_and_the_one_that_was_made_before_still_decrypts(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/toolyard.db"
    make_secret(store, VARIABLE)
    assert not list(tmp_path.iterdir()) and find_secret(store, VARIABLE)[0] == GIVEN
    make_secret(store, {})
    made = find_secret(store, {})[0]
    assert find_secret(store, VARIABLE) == (f"{GIVEN},{made}", "the variable TOOLYARD_SECRET")


def test_no_secret_is_made_for_a_store_without_a_file() -> None:
    for store in ("memory:", "postgresql://toolyard@db/toolyard"):
        make_secret(store, {})
        secret, source = find_secret(store, {})
        assert not secret and source.startswith("none: ") and "TOOLYARD_SECRET" in source
