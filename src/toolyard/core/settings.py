"""What a conversation is set to. A change holds from the next run on; disabling a tool binds at once."""

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, replace

from toolyard.core.limits import Limits


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    system_prompt: str = ""
    context: dict[str, str] = {}
    """Named texts that are given to the model beside the prompt."""
    model: str = ""
    limits: Limits | None = None
    tools: frozenset[str] | None = None
    """The tools this conversation may use; None means all that its caller may."""

    def allows(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


class SettingsChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values for some of the settings; what is unset stays as it is."""

    system_prompt: str | UnsetType = UNSET
    context: dict[str, str] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    limits: Limits | UnsetType | None = UNSET
    tools: frozenset[str] | UnsetType | None = UNSET

    def applied_to(self, settings: Settings) -> Settings:
        given = {name: value for name, value in asdict(self).items() if value is not UNSET}
        return replace(settings, **given)
