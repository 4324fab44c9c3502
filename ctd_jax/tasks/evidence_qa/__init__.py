"""Answers from evidence of the right month among evidence that is like it.

A model's answer is only as good as the months of its evidence. Source:
ChunQiuTR, appendix B.2.5.
"""
