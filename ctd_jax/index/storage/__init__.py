"""Files of an index: records, posteriors, postings, manifest."""
