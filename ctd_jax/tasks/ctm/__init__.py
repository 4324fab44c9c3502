"""Temporal reasoning across Chinese dynasties: answerers, judge, Ito game.

CTM is the Chinese time reasoning benchmark (arXiv 2502.16922).
"""
