"""Temporal reasoning across Chinese dynasties: periods, questions, judge, game.

CTM in the text: Chinese time reasoning benchmark (arXiv 2502.16922).
"""
