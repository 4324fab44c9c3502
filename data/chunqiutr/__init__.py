"""The ChunQiuTR benchmark: sources, records, queries, splits, TFDS builder."""
