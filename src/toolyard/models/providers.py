"""Well-known providers of models: where each is, which environment variable holds its key, and which wire it speaks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    base_url: str
    key_variable: str = ""
    """Empty if none is needed."""
    wire: str = "openai_chat.OpenAIChat"
    """A file of this folder and the model in it; all are made with the same arguments."""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": Provider("https://api.anthropic.com", "ANTHROPIC_API_KEY", "anthropic.Anthropic"),
    "dashscope": Provider("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}
ANY = Provider("")
"""A server that is only known by its address."""
