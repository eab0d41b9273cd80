"""What a trace says that a run cost is what all of its model calls cost."""

import json
import subprocess
from pathlib import Path

from client.drivers import node_path

COST = Path(__file__).parents[2] / "web" / "src" / "traces" / "cost.ts"
SCRIPT = """
const { formatCost } = await import(process.argv[1])
const { trace, prices } = JSON.parse(process.argv[2])
console.log(formatCost(trace, prices, "en"))
"""


def compute_cost(*, summaries: int) -> float:
    turn = {"model": "m", "usage": {"input_tokens": 1_000_000, "output_tokens": 100_000, "cached_tokens": 500_000}}
    trace = {"model": "x:m", "turns": [turn, turn], "compactions": [{"usage": turn["usage"]}] * summaries}
    input_json = json.dumps(
        {"trace": trace, "prices": {"x:m": {"input": 2, "output": 10, "cached": 1, "currency": "USD"}}}
    )
    command = [node_path(), "--input-type=module", "-e", SCRIPT, COST.as_uri(), input_json]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return float(output.strip().lstrip("$"))


def test_a_summary_costs_what_a_turn_does() -> None:
    assert compute_cost(summaries=0) == 5.0
    assert compute_cost(summaries=2) == 10.0
