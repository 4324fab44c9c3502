"""The Timeline Ito game: seats find their order in time without naming it."""
