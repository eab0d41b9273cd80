"""`toolyard access explain`: from the store while no server runs, from the server while one does."""

from pathlib import Path

from cli.process import run_toolyard, start_server

TOOLS = '''
from toolyard import tool

@tool(roles=["finance"], approval="other", approvers=["role:board"], approvals=2)
def pay(amount: int) -> str:
    """Pay an amount."""
    return "paid"
'''


def test_access_explain_says_which_rule_decides_with_and_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "bank.py").write_text(TOOLS)
    (tmp_path / "toolyard.toml").write_text('tools = ["./bank.py"]\n')
    for name, *roles in (("me", "--role", "admin"), ("ann", "--role", "finance"), ("bob",)):
        added = run_toolyard(tmp_path, "keys", "add", name, "--user", name, *roles)
        assert added.code == 0, added.errors
    admin = run_toolyard(tmp_path, "keys", "add", "root", "--user", "root", "--role", "admin").out.splitlines()[0]

    def explain(key: str, **environment: str) -> str:
        answer = run_toolyard(tmp_path, "access", "explain", "--key", key, "--tool", "pay", **environment)
        assert answer.code == 0, answer.errors
        return answer.out

    allowed, denied = explain("ann"), explain("bob")
    assert allowed.startswith("ann may ask for pay: approval = other (rule: approval)\n")
    assert "Each call takes 2 approvals by the role board, within 86400 s." in allowed
    assert denied.startswith("bob may not use pay: it needs one of the roles finance (rule: roles)\n")
    missing = run_toolyard(tmp_path, "access", "explain", "--key", "nobody", "--tool", "pay")
    assert missing.code == 2 and "there is no key named 'nobody'" in missing.errors
    unknown = run_toolyard(tmp_path, "access", "explain", "--key", "ann", "--tool", "play")
    assert unknown.code == 1 and "there is no tool 'play'" in unknown.errors
    with start_server(tmp_path):
        assert explain("ann", TOOLYARD_KEY=admin) == allowed
        assert explain("bob", TOOLYARD_KEY=admin) == denied
        refused = run_toolyard(tmp_path, "access", "explain", "--key", "ann", "--tool", "pay")
        assert refused.code == 1 and "send your API key" in refused.errors
