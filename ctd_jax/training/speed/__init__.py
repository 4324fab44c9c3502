"""Speed of a training run: rates, utilisation, memory, traces."""
