"""The settings of a conversation. A change applies from the next run on; disabling a tool applies at once."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import fields, replace

from toolyard.core.conversation.context.notes import Note, NoteEdit, edit_notes
from toolyard.core.settings.limits import Limits
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options
from toolyard.core.tool_identity import BoundName, FindIdentity, bind_names
from toolyard.core.tools.definition import Tool
from toolyard.core.tools.web_search_rule import SearchMode

Place = Literal["", "pinned", "archived"]
"""Where lists for people show a conversation: as any other, before the others, or only where archived ones are."""


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a conversation, as its owner set them."""

    title: str = ""
    auto_title: bool = False
    """Whether a model may replace the title once, after the first answer. A title that a person sets ends this."""
    description: str = ""
    system_prompt: str = ""
    context: dict[str, Note] = {}
    """Notes by id."""
    model: str = ""
    limits: Limits | None = None
    tools: frozenset[str] | None = None
    """The tools that this conversation may use; None means all that its caller may use."""
    bound_tools: frozenset[BoundName] | None = None
    """The names in `tools` with the tools that they were bound to when they were set.

    None in logs of earlier versions: there a name means the tool that it is bound to now.
    """
    asked_tools: frozenset[str] = frozenset()
    """Tools of the server that wait for an approval even if their own rule is `never`; `*` stands for all."""
    max_messages: int = 0
    max_tokens: int = 0
    """How much of the history the model is shown at most; zero means no limit."""
    web_search: SearchMode = ""
    """Where web searches run, unless a request says otherwise."""
    language: str = ""
    """The language of the server's own messages, unless a request says otherwise."""
    options: Options = DEFAULT_OPTIONS
    """How the model is to answer, where a request does not say so."""
    ephemeral: bool = False
    """Whether to delete it once its run has ended, as its requests bring their history; not if a call had to wait."""
    unlisted: bool = False
    """Whether a program made it for one call: lists for people leave it out, traces and runs do not."""
    place: Place = ""
    deleted_at: float = 0.0
    """When its owner deleted it. It is hidden at once, can be restored for a while, and is then deleted; 0 is never."""
    metadata: dict[str, str] = {}
    """Texts that a client keeps with it. They mean nothing here."""
    preset: str = ""
    """The name of the preset that a run applies, for budgets and usage."""

    def allows(self, tool: Tool) -> bool:
        if self.tools is None:
            return True
        if self.bound_tools is None:
            return not self.tools.isdisjoint(tool.names)
        return tool.is_meant_by(self.bound_tools)

    def without_tools_disabled_in(self, current: "Settings") -> "Settings":
        """Return these settings with only those of their tools that the current ones have too."""
        if current.tools is None:
            return self
        if self.tools is None:
            return replace(self, tools=current.tools, bound_tools=current.bound_tools)
        bound_tools = current.bound_tools
        if bound_tools is not None and self.bound_tools is not None:
            bound_tools &= self.bound_tools
        return replace(self, tools=self.tools & current.tools, bound_tools=bound_tools)

    def bind_tools(self, find_identity: FindIdentity) -> "Settings":
        """Return these settings with the tools that their names are bound to now."""
        return self if self.tools is None else replace(self, bound_tools=bind_names(self.tools, find_identity))


class SettingsChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New values for some settings; unset ones stay as they are.

    Tools, notes and turns can also be changed one by one, so that concurrent changes do not undo each other.
    """

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
    options: Options | UnsetType = UNSET
    place: Place | UnsetType = UNSET
    deleted_at: float | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    preset: str | UnsetType = UNSET
    enable_tool: str = ""
    disable_tool: str = ""
    available_tools: frozenset[str] = frozenset()
    """All tools of the caller: a conversation without a list gets one of these when the first tool is disabled."""
    bound_tools: frozenset[BoundName] = frozenset()
    """The tools that are named here, with those that they are bound to."""
    notes: dict[str, Note | None] = {}
    """Notes to set by id, or to remove where they are None."""
    note_edits: dict[str, NoteEdit] = {}
    max_turns: int = 0
    """The new limit of turns for a request; 0 leaves it as it is."""
    written_title: str | None = None
    """A title that a model wrote, for a conversation that still asks for one; empty if the model gave none."""
    default_limits: Limits = Limits()
    """The other limits of a conversation that has none of its own and gets a new limit of turns."""

    def apply_to(self, settings: Settings) -> Settings:
        """Return the settings with the new values. Raises Invalid for too many notes."""
        new_values = {name: value for name in _REPLACED if (value := getattr(self, name)) is not UNSET}
        before, settings = settings, replace(settings, **new_values)
        if self.title is not UNSET:
            settings = replace(settings, auto_title=False)
        elif self.written_title is not None and settings.auto_title:
            settings = replace(settings, title=self.written_title or settings.title, auto_title=False)
        if self.max_turns:
            limits = settings.limits or self.default_limits
            settings = replace(settings, limits=replace(limits, turns_per_request=self.max_turns))
        if self.notes or self.note_edits:
            settings = replace(settings, context=edit_notes(settings.context, self.notes, self.note_edits))
        if not self._changes_tools:
            return settings
        tools = self._change_tools(settings.tools)
        return replace(settings, tools=tools, bound_tools=self._change_bound_tools(before, tools))

    @property
    def _changes_tools(self) -> bool:
        return self.tools is not UNSET or bool(self.enable_tool or self.disable_tool)

    def bind_tools(self, find_identity: FindIdentity) -> "SettingsChange":
        """Return the change with the tools that the names in it are bound to now."""
        if not self._changes_tools:
            return self
        names = {*(self.tools or ()), *self.available_tools, *filter(None, [self.enable_tool])}
        return replace(self, bound_tools=bind_names(names, find_identity))

    def _change_bound_tools(self, before: Settings, tools: frozenset[str] | None) -> frozenset[BoundName] | None:
        """Return the names with the tools that they are bound to: in the change, else from before, else none."""
        if tools is None:
            return None
        earlier = {bound.name: bound for bound in before.bound_tools or ()}
        named = {bound.name: bound for bound in self.bound_tools}
        # The available tools, which come with one that is disabled, are only for a conversation without a list.
        bound_tools = named | earlier if self.disable_tool else earlier | named
        return frozenset(bound_tools.get(name, BoundName(name)) for name in tools)

    def _change_tools(self, tools: frozenset[str] | None) -> frozenset[str] | None:
        if self.disable_tool:
            tools = (self.available_tools if tools is None else tools) - {self.disable_tool}
        return tools | {self.enable_tool} if self.enable_tool and tools is not None else tools


class AppliedPreset(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A preset as a run applies it that names the preset as its model."""

    model: str
    change: SettingsChange


_REPLACED = tuple(field.name for field in fields(SettingsChange) if field.default is UNSET)
"""The fields of a change whose value replaces that of the setting."""
