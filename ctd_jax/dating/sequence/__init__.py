"""Order of a chronicle: transitions, decoder."""
