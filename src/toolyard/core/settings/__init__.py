"""What operators and applications can set: types and bounds, limits, texts, prices, providers and models."""
