"""A small index for tests, written without the builder: ten invented records.

The months are those of Lu. Records 1-6 are dated by keys, 7-9 by order with
posteriors that are spread, 10 is a heading.
"""

import numpy as np

import ctd_jax
from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar, undated_texts
from ctd_jax.index import calendars, database, manifest, posteriors

WORKS = ("annals", "notes")
# Text, kind, month or (months and probabilities).
RECORDS = (
  ("元年，春，王正月。", "event", 0),
  ("三月，公及邾人盟于某。", "event", 2),
  ("夏，五月，鄭人克段。", "event", 4),
  ("秋，七月，天王使人來。", "event", 6),
  ("二年，夏，四月，莒人入向。", "event", 15),
  ("三年，春，己巳，日有食之。", "event", 25),
  ("鄭人伐某，取禾。", "event", {20: 0.6, 21: 0.3, 40: 0.1}),
  ("莒人使來<b>&。\x1b[31m", "neg_comment", {15: 0.5, 16: 0.2}),
  ("日食之說。", "neg_comment", {25: 0.45, 26: 0.45}),
  ("隱公", "heading", 0),
)
NUM_FIRST_WORK = 6


def load_calendar():
  """Returns the months of Lu."""
  return calendar.read_calendar(reigns.reign_table_dir() / "lu.tsv")


def write_index(folder):
  """Writes the index and returns its calendar."""
  calendar = load_calendar()
  num_months = len(calendar)
  folder.mkdir(parents=True, exist_ok=True)
  entry = calendars.write_index_calendar(folder, calendar, "lu")
  database.create_database(folder)
  connection = database.open_database(folder, readonly=False)
  with connection:
    _write_works(folder, connection, num_months)
    database.set_property(connection, "generation", 1)
  connection.close()
  paths = [
    path
    for part in ("works", "calendar")
    for path in (folder / part).rglob("*")
    if path.is_file()
  ]
  manifest.write_manifest(
    folder,
    manifest.Manifest(
      format=manifest.FORMAT,
      generation=1,
      made_with=ctd_jax.__version__,
      calendar=entry,
      works=[],
      files={
        str(path.relative_to(folder)): manifest.hash_file(path)
        for path in paths
      },
    ),
  )
  return calendar


def _write_works(folder, connection, num_months):
  row = 1
  parts = RECORDS[:NUM_FIRST_WORK], RECORDS[NUM_FIRST_WORK:]
  for work_id, (name, records) in enumerate(
    zip(WORKS, parts, strict=True), start=1
  ):
    arrays = _make_arrays([months for _, _, months in records], num_months)
    work_folder = folder / "works" / name
    work_folder.mkdir(parents=True)
    arrays.save(work_folder)
    posteriors.make_month_postings(arrays).save(work_folder)
    summary = posteriors.summarize_posteriors(arrays)
    dated_by = "keys" if work_id == 1 else "order"
    connection.execute(
      "INSERT INTO works VALUES (?, ?, ?, '', 'plain', '', ?, ?, ?, ?, '[]', "
      "'[]', '2026-01-01', '')",
      (
        work_id,
        name,
        name.title(),
        row,
        len(records),
        dated_by,
        f"works/{name}",
      ),
    )
    for position, (text, kind, months) in enumerate(records):
      known = months if isinstance(months, int) and work_id == 1 else None
      connection.execute(
        f"INSERT INTO records VALUES ({', '.join('?' * 19)})",
        (
          row,
          work_id,
          f"{name}-{position}",
          position,
          text,
          kind,
          f"{name}.txt:{position + 1}",
          "[]",
          0,
          len(text),
          undated_texts.read_head(text, load_calendar()).date_end,
          known,
          known,
          *(
            summary[column][position].item()
            for column in (
              "best_month",
              "best_probability",
              "first_credible",
              "last_credible",
            )
          ),
          dated_by,
          0,
        ),
      )
      connection.execute(
        "INSERT INTO full_text(rowid, words) VALUES (?, ?)",
        (row, database.split_tokens(text)),
      )
      row += 1


def _make_arrays(all_months, num_months):
  chances = np.zeros((len(all_months), num_months + 1))
  for row, months in enumerate(all_months):
    if isinstance(months, int):
      months = {months: 1.0}
    for month, chance in months.items():
      chances[row, month] = chance
    rest = 1 - chances[row].sum()
    chances[row, :-1] += rest / num_months
  return posteriors.make_posterior_arrays([chances], num_months)
