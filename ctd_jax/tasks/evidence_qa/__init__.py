"""Questions with evidence of the right month and evidence that is like it.

ChunQiuTR, appendix B.2.5: what a model answers from evidence is only as good
as the months of the evidence.
"""
