"""Models on this machine: a GGUF file, run by llama.cpp in a process of its own."""

from toolyard.models.local.model import Local

__all__ = ["Local"]
