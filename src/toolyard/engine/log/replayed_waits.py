"""Tells a wait that is on from one that a reader replays. Pure.

A repeated request reads its run from the start, and comes by waits that were decided long ago.
"""

from toolyard.core.conversation.run_view import RunView


def is_at_rest(view: RunView, seq: int, log_end: int) -> bool:
    """Return whether a run has ended or waits after entry `seq` of a log that had `log_end` entries when it was opened.

    Until these entries are all read, a wait may be over: the entry that ends it is among those that follow.
    """
    return view.end is not None or (view.status == "waiting" and seq >= log_end)
