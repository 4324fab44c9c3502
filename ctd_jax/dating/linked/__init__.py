"""Linked dating: host side of `models.linked_dater`."""
