"""What a conversation is set to. A change holds from the next run on; disabling a tool binds at once."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from toolyard.core.limits import Limits
from toolyard.core.notes import Note
from toolyard.core.web_search import SearchMode


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    title: str = ""
    description: str = ""
    system_prompt: str = ""
    context: dict[str, Note] = {}
    """By id."""
    model: str = ""
    limits: Limits | None = None
    tools: frozenset[str] | None = None
    """The tools this conversation may use; None means all that its caller may."""
    max_messages: int = 0
    max_tokens: int = 0
    """How much of the history the model is shown at most; zero means no bound."""
    web_search: SearchMode = ""
    """Where its searches run, unless a request says otherwise."""
    language: str = ""
    """Of the sentences that no model says, unless a request says otherwise."""
    ephemeral: bool = False
    """Its requests carry their history with them: it is forgotten when it rests, unless a call had to wait."""

    unlisted: bool = False
    """A program made it for one call: people's lists leave it out, traces and runs do not."""

    def allows(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


class SettingsChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values for some of the settings; what is unset stays as it is."""

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
        given = {name: value for name, value in asdict(self).items() if value is not UNSET}
        return replace(settings, **given)
