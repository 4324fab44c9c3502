"""Tasks of other papers: Chronocept, CTM, question answering with evidence."""
