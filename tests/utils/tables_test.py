"""Tables: widths of Han characters, alignment, Markdown."""

from ctd_jax.utils import tables


def test_display_width_counts_han_characters_twice():
  assert tables.measure_display_width("隱公 Yin") == 8
  assert (
    tables.measure_display_width("é")
    == tables.measure_display_width("e\u0301")
    == 1
  )


def test_columns_align_to_either_side():
  rows = [["name", "n"], ["隱公", "12"], ["Ai", "3"]]
  assert tables.align_columns(rows, [1]) == ["name   n", "隱公  12", "Ai     3"]
  assert tables.align_columns(rows) == ["name  n", "隱公  12", "Ai    3"]


def test_figures_of_a_markdown_table_stand_to_the_right():
  text = tables.format_markdown_table("T", ["system", "hit@1"], [["a", "0.5"]])
  assert text == "**T**\n\n| system | hit@1 |\n| :-- | --: |\n| a | 0.5 |\n"
