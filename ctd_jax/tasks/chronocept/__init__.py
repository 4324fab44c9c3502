"""How long statements stay valid: curves over log time and their models."""
