"""Timeline Ito: players find their order in time without naming periods."""
