"""Published encoders: geometry, weights, hub folders, export."""
