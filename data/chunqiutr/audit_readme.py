"""Updates the tables in the README from the statistics of a build.

  python -m ctd_jax_datasets.chunqiutr.audit_readme \\
    --readme=data/chunqiutr/README.md \\
    --statistics=tests/golden/chunqiutr_rebuilt.json

A section between `<!-- audit:NAME -->` and `<!-- end -->` is rewritten.
"""

import collections
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from absl import app, flags

from ctd_jax.utils import command_line, files, output
from ctd_jax_datasets.chunqiutr import paper_figures
from ctd_jax_datasets.common import audit_samples, summary

VERDICTS = pathlib.Path(__file__).with_name("verdicts.tsv")
_SECTION = re.compile(
  r"(<!-- audit:(?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL
)


def fill_readme(
  text: str,
  statistics: Mapping[str, Any],
  name: str,
  verdicts: pathlib.Path = VERDICTS,
) -> str:
  """Returns a Markdown text with every marked section rebuilt.

  Args:
    verdicts: verdicts on the records that people read.
  """
  figures, paper = (
    summary.compute_figures(statistics),
    paper_figures.read_paper_figures(statistics),
  )
  sections = {
    table: _format_markdown([[*lines[0]], *(line.values() for line in lines)])
    for table, _, lines in summary.iterate_tables(figures, paper)
  }
  # A list item for each reason, with the figures it is for.
  figures_by_reason = collections.defaultdict(list)
  for difference in paper_figures.find_differences(figures, paper):
    figures_by_reason[difference.reason].append(
      f"{difference.row} {difference.column} "
      f"{difference.value:,} / {difference.paper_value:,}"
    )
  sections["differences"] = "\n".join(
    f"- {'; '.join(names)}. {reason}"
    for reason, names in figures_by_reason.items()
  )
  sections["build"] = (
    f"`{statistics['name']}`, sha256 of its content\n"
    f"`{statistics['content_sha256']}`."
  )
  sections["sample"] = format_sample(verdicts)

  def replace_section(match: re.Match) -> str:
    if match["name"] not in sections:
      line = text.count("\n", 0, match.start()) + 1
      raise ValueError(
        f"{name}:{line}: audit:{match['name']} is not one of "
        f"{', '.join(sections)}"
      )
    return f"{match[1]}{sections[match['name']]}\n{match[3]}"

  # The pattern would run on to the end of the next section.
  if text.count("<!-- audit:") != len(_SECTION.findall(text)):
    raise ValueError(f"{name}: an <!-- audit:... --> has no <!-- end -->")
  return _SECTION.sub(replace_section, text)


def _format_markdown(rows: Sequence[Iterable[str]]) -> str:
  names, *lines = map(list, rows)
  table = output.format_table("", names, lines, markdown=True, left=names[:1])
  return table.rstrip("\n")


def format_sample(path: pathlib.Path) -> str:
  """Returns the records that were read, and the table of error rates."""
  rows = audit_samples.read_verdicts(path)
  audit_samples.check_all_read(rows, path)
  return "\n\n".join(
    [
      f"{audit_samples.describe_sample(rows)}.",
      _format_markdown(audit_samples.tabulate_rates(rows)),
    ]
  )


def main(argv: Sequence[str]) -> None:
  """Renews or checks the tables of the README."""
  if len(argv) > 1:
    raise app.UsageError(f"unexpected argument {argv[1]!r}")
  path = pathlib.Path(flags.FLAGS.readme)
  source = pathlib.Path(flags.FLAGS.statistics)
  try:
    old_text = path.read_text(encoding="utf-8")
    statistics = json.loads(source.read_text(encoding="utf-8"))
    new_text = fill_readme(old_text, statistics, str(path))
  except (OSError, ValueError) as error:
    sys.exit(f"error: {error}")
  if old_text == new_text:
    print(f"{path}: agrees with {source}")
  elif flags.FLAGS.check:
    sys.exit(f"error: {path} differs from {source}; run without --check")
  else:
    files.write_text(path, new_text)
    print(f"{path}: updated from {source}")


if __name__ == "__main__":
  flags.DEFINE_string(
    "readme",
    None,
    "Markdown file to update. Example: --readme=data/chunqiutr/README.md",
  )
  flags.DEFINE_string(
    "statistics",
    None,
    "Statistics that the build command wrote. "
    "Example: --statistics=tests/golden/chunqiutr_rebuilt.json",
  )
  flags.DEFINE_bool(
    "check",
    False,
    "Change nothing, and fail if the file is stale. Example: --check",
  )
  flags.mark_flags_as_required(["readme", "statistics"])
  command_line.run_app(main)
