"""Parts that every data set uses: builders, formats, checks, summaries."""
