"""A call while the model is still writing it, for every wire that streams arguments."""

from toolyard.models.shared.arguments import Arguments, read_arguments


class CallInProgress:
    """One call, as far as it has arrived."""

    __slots__ = ("arguments_bytes", "damaged", "fragments", "id", "name", "name_restated", "number", "provider_id")

    def __init__(self, number: int, id: str) -> None:
        """`id` is Toolyard's id of the call; `provider_id` arrives with the stream."""
        self.number = number
        self.id = id
        self.name = ""
        self.provider_id = ""
        self.fragments: list[str] = []
        self.arguments_bytes = 0
        self.damaged = False
        self.name_restated = False

    def parse_arguments(self, *, cut_off: bool) -> Arguments:
        return read_arguments(self.fragments, cut_off=cut_off, damaged=self.damaged)
