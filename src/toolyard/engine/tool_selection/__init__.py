"""Selects the tools that a turn offers to the model: by caller, by web search setting, and by budget."""
