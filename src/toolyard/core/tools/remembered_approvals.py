"""Approvals that are remembered for the whole conversation, and the tools that each of them covers. Pure."""

from msgspec import Struct

from toolyard.core.tool_identity import ToolIdentity
from toolyard.core.tools.definition import Tool, hash_definition
from toolyard.core.tools.trust import find_result_server

_EVERY_TOOL = "*"


class RememberedApproval(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A tool of a server that is approved for the whole conversation; for a tool of no server its only name."""

    server: str = ""
    tool: str
    hash: str = ""
    """The hash of the tool's definition, in logs of earlier versions: there `tool` is the name that models see."""

    def covers(self, tool: Tool) -> bool:
        if self.tool == _EVERY_TOOL:
            return True
        if self.hash:
            is_same_server = (self.server, self.tool) == (tool.server, tool.name)
            return is_same_server and self.hash == hash_definition(tool)
        return ToolIdentity(self.server, self.tool) == tool.identity


ALL_APPROVED = RememberedApproval(tool=_EVERY_TOOL)


def remember_identity(identity: ToolIdentity) -> RememberedApproval:
    return RememberedApproval(server=identity.server, tool=identity.tool)


def remember_name(name: str, hash: str, result_source: str) -> RememberedApproval:
    """Return an approval of a log that holds only the tool's name.

    It counts for the tool whose definition the model was shown, on the server that the result of the approved call
    comes from. A result that names no server leaves only tools of no server: the others are asked about again.
    """
    return RememberedApproval(server=find_result_server(name, result_source), tool=name, hash=hash)
