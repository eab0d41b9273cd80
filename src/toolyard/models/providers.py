"""The presets of well-known providers: address, environment variable of the key, and wire."""

from collections.abc import Mapping
from dataclasses import dataclass

WIRES = {
    "chat": "chat.OpenAIChat",
    "responses": "responses.OpenAIResponses",
    "messages": "messages.Anthropic",
    "gemini": "gemini.Gemini",
}
"""The package and class of each wire; all classes take the same arguments."""


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
    wire: str = "chat"
    native_wire: str = ""
    """The wire of turns that offer a tool of the provider's own, if it is another one."""

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
        base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY", native_wire="responses"
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
    ),
    "dashscope": ProviderPreset(
        base_url="https://dashscope.aliyuncs.com/compatible-mode/v1", key_variable="DASHSCOPE_API_KEY"
    ),
    "ollama": ProviderPreset(base_url="http://127.0.0.1:11434/v1"),
    "deepseek": ProviderPreset(base_url="https://api.deepseek.com/v1", key_variable="DEEPSEEK_API_KEY"),
    "groq": ProviderPreset(base_url="https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"),
    "openrouter": ProviderPreset(base_url="https://openrouter.ai/api/v1", key_variable="OPENROUTER_API_KEY"),
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
