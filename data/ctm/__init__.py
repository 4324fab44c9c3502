"""CTM: questions across ten dynasties with gold that can be recomputed."""
