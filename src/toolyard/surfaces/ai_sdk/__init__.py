"""`/ai-sdk`: the UI message stream of the AI SDK (`useChat`)."""
