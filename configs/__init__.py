"""Experiment configs, installed as `ctd_jax_configs`; see `ctd_jax.train`."""
