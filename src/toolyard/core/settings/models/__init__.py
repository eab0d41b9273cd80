"""Settings of models: their names, cards, options, and who may use them."""
