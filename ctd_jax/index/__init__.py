"""An index: a folder that answers questions about when records happened."""
