"""Language models: one package for each wire, and what the wires share."""
