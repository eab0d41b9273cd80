"""The settings of a conversation. A change applies from the next run on; disabling a tool applies at once."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from toolyard.core.limits import Limits
from toolyard.core.notes import Note
from toolyard.core.web_search import SearchMode


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a conversation, as its owner set them."""

    title: str = ""
    description: str = ""
    system_prompt: str = ""
    context: dict[str, Note] = {}
    """Notes by id."""
    model: str = ""
    limits: Limits | None = None
    tools: frozenset[str] | None = None
    """The tools that this conversation may use; None means all that its caller may use."""
    max_messages: int = 0
    max_tokens: int = 0
    """How much of the history the model is shown at most; zero means no limit."""
    web_search: SearchMode = ""
    """Where web searches run, unless a request says otherwise."""
    language: str = ""
    """The language of the server's own messages, unless a request says otherwise."""
    ephemeral: bool = False
    """Whether to delete it once its run has ended, as its requests bring their history; not if a call had to wait."""
    unlisted: bool = False
    """Whether a program made it for one call: lists for people leave it out, traces and runs do not."""

    def allows(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


class SettingsChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values for some settings; unset ones stay as they are."""

    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    context: dict[str, Note] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    limits: Limits | UnsetType | None = UNSET
    tools: frozenset[str] | UnsetType | None = UNSET
    max_messages: int | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    web_search: SearchMode | UnsetType = UNSET
    language: str | UnsetType = UNSET

    def apply_to(self, settings: Settings) -> Settings:
        """Return the settings with the new values."""
        new_values = {name: value for name, value in asdict(self).items() if value is not UNSET}
        return replace(settings, **new_values)
