"""What is written of a dated chronicle."""
