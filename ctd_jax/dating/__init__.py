"""Dating: posteriors over the months of a timeline, with reasons."""
