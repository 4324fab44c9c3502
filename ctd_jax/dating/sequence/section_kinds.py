"""Kinds of section, by what a section prints at its head.

DAY is a day of the sexagenary cycle; MONTH, SEASON and YEAR are the largest
unit of its date; NAMED is a reign with its year; STREAM is the mark of a
stream, 「傳」.
"""

NO_DATE, DAY, MONTH, SEASON, YEAR, NAMED, STREAM = range(7)
NUM_KINDS = 7
