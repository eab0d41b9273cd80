"""The engine: the loop that drives conversations, its journal, workers and tool registry, and the service in front."""
