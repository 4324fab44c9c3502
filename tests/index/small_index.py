"""A small index for tests, written without the builder: ten invented records.

The months are those of Lu. Records 1-6 are dated by keys, 7-9 by order with
posteriors that are spread, 10 is a heading.
"""

import numpy as np

import ctd_jax
from ctd_jax.chronology import reigns
from ctd_jax.dating.chronicle import calendar, undated_texts
from ctd_jax.index import calendars, database, manifest, posteriors
from ctd_jax.index.building import index_commit

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


def write_index(folder, records=RECORDS, num_first=NUM_FIRST_WORK):
  """Writes the index; the first records are of the first work."""
  months = load_calendar()
  folder.mkdir(parents=True, exist_ok=True)
  calendars.write_index_calendar(folder, months, "lu")
  database.create_database(folder)
  connection = database.open_database(folder, readonly=False)
  with connection:
    first, last = records[:num_first], records[num_first:]
    _write_work(folder, connection, months, "annals", 1, first, "keys")
    _write_work(
      folder, connection, months, "notes", 1 + num_first, last, "order"
    )
    database.set_property(connection, "next_row", 1 + len(records))
  connection.close()
  write_manifest(folder)


def write_manifest(folder):
  """Writes the manifest of what a folder holds."""
  months = calendars.load_index_calendar(folder)
  paths = [*folder.glob("works/*/*"), *folder.glob("calendar/*")]
  connection = database.open_database(folder, readonly=False)
  content = manifest.Manifest(
    format=manifest.FORMAT,
    generation=1,
    made_with=ctd_jax.__version__,
    calendar={
      "spec": "lu",
      "months": len(months),
      "sha256": calendars.hash_calendar(months),
    },
    works=database.describe_works(connection),
    files={
      str(path.relative_to(folder)): manifest.hash_file(path) for path in paths
    },
    full_text_sha256=index_commit.hash_full_text(connection),
  )
  text = index_commit.store_manifest(folder, connection, content)
  connection.close()
  manifest.write_manifest(folder, text)


def insert(connection, table, **values):
  """Inserts a row."""
  connection.execute(
    f"INSERT INTO {table}({', '.join(values)}) "
    f"VALUES ({', '.join('?' * len(values))})",
    [*values.values()],
  )


def _write_work(
  folder, connection, calendar, name, first_row, records, dated_by
):
  arrays = _make_arrays([months for _, _, months in records], len(calendar))
  work_folder = folder / "works" / name
  work_folder.mkdir(parents=True)
  arrays.save(work_folder)
  posteriors.make_month_postings(arrays).save(work_folder)
  summary = posteriors.summarize_posteriors(arrays)
  work_id = 1 if name == "annals" else 2
  insert(
    connection,
    "works",
    work_id=work_id,
    name=name,
    title=name.title(),
    source="",
    text_format="plain",
    sha256="",
    first_row=first_row,
    num_records=len(records),
    dated_by=dated_by,
    folder=f"works/{name}",
    printed_reigns="[]",
    warnings="[]",
    added="2026-01-01",
    records_sha256="",
    dates_sha256="",
    dated_with="{}",
  )
  for position, (text, kind, months) in enumerate(records):
    row = first_row + position
    known = months if dated_by == "keys" else None
    insert(
      connection,
      "records",
      row=row,
      work_id=work_id,
      record_id=f"{name}-{position}",
      position=position,
      text=text,
      kind=kind,
      place=f"{name}.txt:{position + 1}",
      headings="[]",
      section_start=0,
      section_end=len(text),
      date_end=undated_texts.read_head(text, calendar).date_end,
      start_month=known,
      end_month=known,
      **{column: values[position].item() for column, values in summary.items()},
      dated_by=dated_by,
      fixed=0,
    )
    words = database.split_tokens(text)
    insert(connection, "full_text", rowid=row, words=words)


def _make_arrays(all_months, num_months):
  chances = np.zeros((len(all_months), num_months + 1))
  for row, months in enumerate(all_months):
    months = {months: 1.0} if isinstance(months, int) else months
    for month, chance in months.items():
      chances[row, month] = chance
  chances[:, :-1] += (1 - chances.sum(axis=1, keepdims=True)) / num_months
  return posteriors.make_posterior_arrays([chances], num_months)
