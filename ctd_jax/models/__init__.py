"""Encoders, pooling, calendar heads and the dual encoder built from them."""
