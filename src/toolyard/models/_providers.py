"""Where well-known providers of Chat Completions are, and which environment variable holds their key."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    base_url: str
    key_variable: str = ""
    """Empty if none is needed."""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "dashscope": Provider("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
}
