"""Training of a retriever: input, objective, step, loop, checkpoints."""
