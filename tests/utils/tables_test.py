"""Tables: widths of Han characters, alignment, Markdown, TSV and CSV."""

import pytest

from ctd_jax.utils import output

HEADER = ["name", "n"]
ROWS = [["隱公", 12], ["e\u0301", 3]]


@pytest.mark.parametrize(
  ("title", "settings", "expected"),
  [
    ("", {"right": [1]}, "name   n\n隱公  12\ne\u0301      3\n"),
    ("", {}, "name  n\n隱公  12\ne\u0301     3\n"),
    (
      "T",
      {},
      "T\n--------\nname  n\n--------\n隱公  12\ne\u0301     3\n--------\n",
    ),
    (
      "T",
      {"markdown": True},
      "**T**\n\n| name | n |\n| --: | --: |\n| 隱公 | 12 |\n| e\u0301 | 3 |\n",
    ),
  ],
)
def test_tables_are_for_terminals_and_markdown(title, settings, expected):
  assert output.format_table(title, HEADER, ROWS, **settings) == expected


def test_columns_of_words_are_on_the_left_in_markdown():
  text = output.format_table("", ["system", "hit@1"], [["a", 1]], markdown=True)
  assert text == "| system | hit@1 |\n| :-- | --: |\n| a | 1 |\n"


def test_cells_are_quoted_where_it_matters():
  rows = [['"a"', "b,c"], [None, 1]]
  text = output.format_delimited(HEADER, rows, ",")
  assert text == 'name,n\n"""a""","b,c"\n,1\n'
  text = output.format_delimited(HEADER, rows, quoted=False)
  assert text == 'name\tn\n"a"\tb,c\n\t1\n'
