"""`toolyard:offline`: the model that answers where no language model is configured. It proposes; it does not guess.

| file | holds |
|---|---|
| `model` | the Model: one step of the planner as a turn |
| `planner` | the next step: call, propose, ask, offer a choice, show a result |
| `catalogue` | the tools of one offer, found by example or by words |
| `lookups` | values that come from other tools |
| `templates` | a tool's examples, matched against a message |
| `evidence` | parameters filled from parts of a message that have their type |
| `dialogue` | what is open between two messages |
| `parameters`, `dates`, `text` | parsers of schemas, times and messages |
| `wording` | sentences and results for people |
"""

from toolyard.models.offline.model import NAME, Offline

__all__ = ["NAME", "Offline"]
