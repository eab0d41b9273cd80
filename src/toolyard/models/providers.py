"""The presets of well-known providers: address, environment variable of the key, wire and quirks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from toolyard.core.settings.models.options import EXTRA_OPTIONS

WireName = Literal["chat", "responses", "messages", "gemini"]


class ChatQuirks(Struct, frozen=True, kw_only=True):
    """The differences of a provider's Chat Completions API from OpenAI's."""

    forced_choice: bool = True
    """Whether the provider accepts a `tool_choice` that requires a call or names a tool."""
    accepts_files: bool = True
    """Whether the provider accepts PDFs; text files are sent as text to every provider."""
    max_tokens_field: str = "max_completion_tokens"
    """The field that limits the length of an answer."""
    uses_budgets: bool = False
    """Whether thinking is set as a number of tokens instead of an effort."""
    reasoning_field: str = ""
    """The field in which the reasoning before a call must go back; empty if the provider does not require it."""
    missing_options: frozenset[str] = frozenset()
    """The options that the provider does not have."""
    has_output_schemas: bool = True
    """Whether the provider takes a schema for the answer; otherwise it has only a mode in which any JSON is written."""
    returns_details: bool = False
    """Whether `reasoning_details` go back to the model that signed them."""
    has_every_effort: bool = False
    """Whether the provider has efforts below low and above high."""
    alternates_roles: bool = False
    """Whether two messages of the user in a row may be refused, as the chat templates of some models do."""
    extra_options: frozenset[str] = EXTRA_OPTIONS
    """The extra options that the provider does not refuse, and does not ignore either."""


COMPATIBLE_QUIRKS = ChatQuirks(has_every_effort=True, alternates_roles=True)
"""The defaults for an unknown server."""
_OPENAI_QUIRKS = ChatQuirks(has_every_effort=True, extra_options=EXTRA_OPTIONS - {"metadata"})
"""OpenAI takes metadata only for answers that it stores."""
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPreset:
    base_url: str = ""
    """The address, or the path after the address in `address_variable`."""
    address_variable: str = ""
    key_variable: str = ""
    """Empty if the provider needs no key."""
    other_key_variable: str = ""
    key_header: str = ""
    """The header of the key; empty means `Authorization: Bearer`."""
    wire: WireName = "chat"
    native_wire: WireName | Literal[""] = ""
    """The wire of turns that offer a tool of the provider's own, if it is another one."""
    quirks: ChatQuirks = COMPATIBLE_QUIRKS

    def resolve_base_url(self, name: str, environment: Mapping[str, str]) -> str:
        """Return the base URL; empty if none is configured. The variable `NAME_BASE_URL` takes precedence."""
        if override := environment.get(f"{name.upper()}_BASE_URL"):
            return override
        if not self.address_variable:
            return self.base_url
        endpoint = environment.get(self.address_variable, "").rstrip("/")
        return f"{endpoint}{self.base_url}" if endpoint else ""

    def resolve_key(self, environment: Mapping[str, str]) -> str:
        return environment.get(self.key_variable) or environment.get(self.other_key_variable) or ""


PROVIDERS: dict[str, ProviderPreset] = {
    "openai": ProviderPreset(
        base_url="https://api.openai.com/v1",
        key_variable="OPENAI_API_KEY",
        native_wire="responses",
        quirks=_OPENAI_QUIRKS,
    ),
    "anthropic": ProviderPreset(
        base_url="https://api.anthropic.com",
        key_variable="ANTHROPIC_API_KEY",
        key_header="x-api-key",
        wire="messages",
    ),
    "gemini": ProviderPreset(
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_variable="GEMINI_API_KEY",
        other_key_variable="GOOGLE_API_KEY",
        key_header="x-goog-api-key",
        wire="gemini",
    ),
    "azure": ProviderPreset(
        base_url="/openai/v1",
        address_variable="AZURE_OPENAI_ENDPOINT",
        key_variable="AZURE_OPENAI_API_KEY",
        native_wire="responses",
        quirks=_OPENAI_QUIRKS,
    ),
    # DashScope refuses PDFs, and a forced tool choice while Qwen thinks.
    "dashscope": ProviderPreset(
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
        key_variable="DASHSCOPE_API_KEY",
        quirks=ChatQuirks(
            forced_choice=False,
            accepts_files=False,
            max_tokens_field="max_tokens",
            uses_budgets=True,
            extra_options=_PENALTIES,
        ),
    ),
    "ollama": ProviderPreset(
        base_url="http://127.0.0.1:11434/v1",
        quirks=ChatQuirks(max_tokens_field="max_tokens", extra_options=_PENALTIES | {"logprobs", "top_logprobs"}),
    ),
    # DeepSeek refuses a call in the history without the reasoning before it, and has no schemas for answers. Its
    # reasoner has refused two messages of the user in a row.
    "deepseek": ProviderPreset(
        base_url="https://api.deepseek.com/v1",
        key_variable="DEEPSEEK_API_KEY",
        quirks=ChatQuirks(
            extra_options=_PENALTIES,
            max_tokens_field="max_tokens",
            reasoning_field="reasoning_content",
            missing_options=frozenset({"seed"}),
            has_output_schemas=False,
            alternates_roles=True,
        ),
    ),
    "groq": ProviderPreset(
        base_url="https://api.groq.com/openai/v1",
        key_variable="GROQ_API_KEY",
        quirks=ChatQuirks(extra_options=_PENALTIES | {"service_tier", "user"}),
    ),
    # Models behind OpenRouter that sign their reasoning require it back. Some of its hosts have strict chat templates.
    "openrouter": ProviderPreset(
        base_url="https://openrouter.ai/api/v1",
        key_variable="OPENROUTER_API_KEY",
        quirks=ChatQuirks(
            max_tokens_field="max_tokens", returns_details=True, has_every_effort=True, alternates_roles=True
        ),
    ),
}
UNKNOWN_PROVIDER = ProviderPreset()
"""The preset of a server that is given by its address."""


def describe_setup() -> str:
    """Return what to set so that a language model answers."""
    keys = ", ".join(
        f"{name}:… (needs {preset.key_variable})" for name, preset in PROVIDERS.items() if preset.key_variable
    )
    return (
        "No model is configured. Start with --model, or set `model` in toolyard.toml, to one of "
        f"{keys}, ollama:… (needs no key) or http://host/v1#model"
    )
