"""Transformer encoders in flax.linen: BERT and decoder families."""
