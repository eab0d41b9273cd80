"""The OpenAI-compatible paths below `/v1`: models, chat completions and responses."""
