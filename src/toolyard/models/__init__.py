"""Language models, one file per wire."""
