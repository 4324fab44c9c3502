"""Jobs: builds that a page has asked for."""
