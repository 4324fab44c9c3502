"""Kinds of section, by what a section prints at its head.

DAY is a day of the sexagenary cycle; MONTH, SEASON and YEAR are the largest
unit of its date; NAMED is a reign with its year; STREAM is the mark of a
stream, 「傳」. TOLD_MONTH and TOLD_YEAR are months and years inside a record of
running text, where a date of the narrative looks like one that it tells of.
"""

NO_DATE, DAY, MONTH, SEASON, YEAR, NAMED, STREAM = range(7)
TOLD_MONTH, TOLD_YEAR = range(7, 9)
NUM_KINDS = 9
