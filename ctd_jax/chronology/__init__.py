"""Reign-dated time. Nothing in here imports jax or tensorflow."""
