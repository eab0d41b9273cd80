"""Anthropic's Messages API: `POST /v1/messages`, answered whole or as a stream, and the count of its tokens."""
