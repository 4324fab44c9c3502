"""Published encoders: geometry, weights, folders, export."""
