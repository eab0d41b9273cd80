"""`toolyard:offline`: what answers where no language model is set. It proposes; it does not guess.

| file | holds |
|---|---|
| `model` | the Model: one step of the planner as a turn |
| `planner` | what comes next: call, propose, ask, let choose, tell |
| `catalogue` | the tools of one offer, found by example or by words |
| `lookups` | values that other tools know |
| `templates` | a message as one of a tool's own examples |
| `evidence` | parameters filled from what a message shows to be of their type |
| `dialogue` | what is open between two messages |
| `parameters`, `dates`, `text` | schemas, times and messages, read |
| `wording` | sentences and results for people |
"""

from toolyard.models.offline.model import NAME, Offline

__all__ = ["NAME", "Offline"]
