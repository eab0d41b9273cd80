"""A module of tools may look after itself: `toolyard doctor` asks its `doctor_checks` as well."""

from pathlib import Path

from cli.process import run_toolyard

TOOL = '''
from toolyard import tool

@tool
def ping() -> str:
    """Answer."""
    return "pong"

'''


def examine(folder: Path, checks: str) -> tuple[int, str]:
    (folder / "own.py").write_text(TOOL + checks)
    done = run_toolyard(folder, "doctor", "--tools", "./own.py", "--port", "0")
    return done.code, done.out


def test_its_findings_are_shown_among_the_others_and_count(tmp_path: Path) -> None:
    checks = "async def doctor_checks():\n    return [('crm', True, 'answers'), ('mail', False, 'no password')]\n"
    code, out = examine(tmp_path, checks)
    assert code == 1
    assert "✓ crm       answers\n" in out and "✗ mail      no password\n" in out


def test_a_check_that_raises_or_returns_something_else_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    code, out = examine(tmp_path, "async def doctor_checks():\n    raise KeyError('CRM_URL')\n")
    assert code == 1 and "✗ tools     the doctor_checks of own.py failed: KeyError: 'CRM_URL'" in out
    code, out = examine(tmp_path, "async def doctor_checks():\n    return ['all is well']\n")
    assert code == 1 and "✗ tools     the doctor_checks of own.py must return (label, is well, text) for each" in out
