"""What a caller may use: tools, models, providers, and who the caller is."""
