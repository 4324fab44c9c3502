"""Reign-dated time; neither JAX nor TensorFlow is imported."""
