"""Independent checks of questions: gold recomputed with sets of years."""
