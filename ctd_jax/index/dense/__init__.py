"""Dense part of an index: vectors of its records and what made them."""
