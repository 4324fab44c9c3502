"""Order of a chronicle: emissions, transitions, decoder."""
