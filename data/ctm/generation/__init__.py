"""Generation of questions and games: entities drawn, questions worded."""
