"""When a record happened: posteriors over the months of a timeline."""
