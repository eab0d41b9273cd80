"""HTTP for models: connections, streamed replies, retries before the first byte, and providers' errors."""
