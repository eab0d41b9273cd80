"""HTTP for models: connections, streamed replies, retries before the first byte, and errors of providers."""
