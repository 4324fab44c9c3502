"""Chronicles: records, sections, calendars, dates."""
