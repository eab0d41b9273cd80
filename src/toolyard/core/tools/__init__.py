"""What is known of tools: their definitions, who may decide on them, trust, redaction, and the servers they are on."""
