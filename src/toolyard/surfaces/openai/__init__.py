"""The OpenAI-compatible paths below `/v1`: models and chat completions."""
