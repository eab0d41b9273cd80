"""The readers in this process that wait for new entries of a conversation, for stores that one process writes."""

from collections.abc import Callable

Wake = Callable[[], None]


class Subscribers:
    """Callbacks by conversation. All calls happen in the event loop's thread."""

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Wake]] = {}

    def subscribe(self, conversation: str, wake: Wake) -> Callable[[], None]:
        """Call `wake` after each change of the conversation's log. Return a function that unsubscribes it."""
        callbacks = self._callbacks.setdefault(conversation, [])
        callbacks.append(wake)

        def unsubscribe() -> None:
            if wake in callbacks:
                callbacks.remove(wake)
            if not callbacks and self._callbacks.get(conversation) is callbacks:
                del self._callbacks[conversation]

        return unsubscribe

    def notify(self, conversation: str) -> None:
        for wake in tuple(self._callbacks.get(conversation, ())):
            wake()
