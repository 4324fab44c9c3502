"""Experiment configs, installed as `ctd_jax.configs`; see `ctd_jax.train`."""
