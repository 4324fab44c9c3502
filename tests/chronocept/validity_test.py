"""How long sentences stay valid: the command, published weights, own data."""

import csv
import itertools
import json
import pathlib
import re
import shlex
import types
import zipfile

import numpy as np
import pytest

import ctd_jax
from ctd_jax.tasks.chronocept import (
  compare,
  curves,
  experiment,
  published_weights,
  systems,
  validity,
)
from ctd_jax.tasks.chronocept.curves import ValidityCurve
from ctd_jax_configs import chronocept
from ctd_jax_datasets import load
from ctd_jax_datasets.chronocept import sample_records
from ctd_jax_datasets.common.source_files import SourceError

TUTORIAL = pathlib.Path(__file__).parents[2] / "docs/tutorials"
HEADER = "id,text,location,scale,skewness"
DRAW = np.random.default_rng(0)


def statements(count=20):
  """Returns the text of a CSV file whose sentences tell their location."""
  units = {"minutes": 1, "hours": 60, "days": 1440, "weeks": 10080}
  lines = [HEADER]
  for number in range(count):
    unit, minutes = [*units.items()][number % 4]
    location = float(curves.to_log_time(3 * minutes)) + DRAW.normal()
    lines.append(
      f'n{number},"It is shut for three {unit}, they say.",{location:.2f},'
      f"{9 + DRAW.normal():.2f},{DRAW.normal():.2f}"
    )
  return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
  """The workdir of a run on own statements."""
  folder = tmp_path_factory.mktemp("validity")
  (folder / "statements.csv").write_text(statements())
  config = chronocept.get_config("tfidf")
  config.dataset = f"csv:{folder / 'statements.csv'}"
  experiment.run_experiment(config, folder / "run")
  return folder / "run"


@pytest.mark.parametrize(
  ("minutes", "expected"),
  [
    (0.2, "1 minute"),
    (45, "45 minutes"),
    (100, "100 minutes"),
    (36 * 60, "36 hours"),
    (3.2 * 1440, "3 days"),
    (21 * 1440, "3 weeks"),
    (120 * 1440, "4 months"),
    (365 * 1440, "12 months"),
    (525600 * 12345, "12,000 years"),
  ],
)
def test_times_in_words(minutes, expected):
  assert curves.describe_time(minutes) == expected


def test_a_curve_tells_its_mode_and_its_shortest_span():
  hour, sd = float(curves.to_log_time(60)), 10.0
  curve = ValidityCurve.make("x", hour, sd, 0.0)
  factor = 1.1 ** (1.2816 * sd)  # 80 % of a normal curve
  assert curve.mode == pytest.approx(60, rel=1e-3)
  assert curve.low == pytest.approx(60 / factor, rel=0.02)
  assert curve.high == pytest.approx(60 * factor, rel=0.02)
  skewed = ValidityCurve.make("x", hour, sd, 4.0)
  assert skewed.low < skewed.mode < skewed.high
  # Time starts at one minute, and ends before floats do.
  assert ValidityCurve.make("x", -500.0, 5.0, 0.0).high == 1
  far = ValidityCurve.make("x", 1e5, -1.0, 0.0)
  assert np.isfinite(far.high)
  assert "years" in far.describe()


def run_command(monkeypatch, *arguments, **flags):
  """Runs the command with these flags in this process."""
  values = dict.fromkeys(("encoder", "sources", "input", "out", "plot"))
  values |= {"model": validity.DEFAULT_MODEL, "column": "text", **flags}
  monkeypatch.setattr(validity.flags, "FLAGS", types.SimpleNamespace(**values))
  validity.main([*arguments])


def test_sentences_and_tables_have_curves(
  workdir, tmp_path, monkeypatch, capsys
):
  sentence = "It is shut for three days, they say."
  picture = tmp_path / "curve.png"
  run_command(monkeypatch, sentence, model=str(workdir), plot=str(picture))
  printed = capsys.readouterr().out
  model = ctd_jax.ValidityModel.load(workdir)
  (curve,) = model.predict([sentence])
  assert model.predict(sentence) == [curve]  # not its characters
  assert f"{sentence}\n  {curve.describe()} (trained on csv:" in printed
  assert 1440 < curve.mode < 10 * 1440
  assert picture.stat().st_size > 10_000
  table = tmp_path / "in.csv"
  table.write_text(f'no,note,negation\n1,"{sentence}",\n2,"Open, now",closed\n')
  for name in ("out.csv", "out.jsonl"):
    run_command(
      monkeypatch,
      model=str(workdir),
      input=str(table),
      column="note",
      out=str(tmp_path / name),
    )
  lines = (tmp_path / "out.jsonl").read_text().splitlines()
  with (tmp_path / "out.csv").open() as file:
    rows = list(csv.DictReader(file))
  assert [row["text"] for row in rows] == [sentence, "Open, now"]
  first = json.loads(lines[0])
  assert (
    float(rows[0]["mode"]) == first["mode"] == pytest.approx(curve.mode, 1e-4)
  )
  assert first["words"] == curve.describe()


def test_bad_input_of_the_command_is_named(workdir, tmp_path, monkeypatch):
  table = tmp_path / "in.csv"
  table.write_text("a,b\n1,\n")
  (tmp_path / "empty.txt").write_text("\n")
  (tmp_path / "other").mkdir()
  (tmp_path / "other/config.json").write_text('{"task": "retrieval"}')
  monkeypatch.setenv("CTD_JAX_RELEASE", str(tmp_path / "nowhere"))
  for arguments, flags, message in (
    ((), {}, "give statements as arguments or a file with --input"),
    (("",), {}, "an argument is empty"),
    (("x",), {"input": "y"}, "one of the two"),
    (("x",), {"out": "curves.xlsx"}, "out.* ends in .csv or .jsonl"),
    (("x",), {"plot": "curves.pdf"}, "plot.* ends in .png"),
    (("x",), {}, "nowhere: no such folder.*train a model on statements"),
    (("x",), {"model": str(tmp_path)}, "no config of a run; train one"),
    (
      ("x",),
      {"model": str(tmp_path / "other")},
      "json: not the config of conf",
    ),
    ((), {"input": str(tmp_path / "none")}, "none: no such file"),
    (
      (),
      {"input": str(table)},
      "no column text; .*the file has a, b .--column=text",
    ),
    ((), {"input": str(table), "column": "b"}, "in.csv:2: b is empty"),
    ((), {"input": str(tmp_path / "empty.txt")}, "no statement in the file"),
  ):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
      run_command(monkeypatch, *arguments, **flags)


def test_invented_sentences_are_told(workdir, monkeypatch, capsys):
  load_model = systems.ValidityModel.load

  def load_synthetic(*arguments):
    model = load_model(*arguments)
    model.config.dataset = "chronocept/synthetic_1"
    return model

  monkeypatch.setattr(systems.ValidityModel, "load", load_synthetic)
  run_command(monkeypatch, "It is shut.", model=str(workdir))
  assert "synthetic_1 (invented sentences)" in capsys.readouterr().out


@pytest.fixture
def weights(tmp_path):
  """A folder in the layout of the authors' repository, and its arrays."""
  widths = (6912, 4, 2, 3)
  arrays = []
  for width, next_width in itertools.pairwise(widths):
    arrays.append(DRAW.normal(size=(next_width, width)).astype("<f4"))
    arrays.append(DRAW.normal(size=next_width).astype("<f4"))
  folder = tmp_path / "baseline_weights"
  (folder / "benchmark_1").mkdir(parents=True)
  with zipfile.ZipFile(folder / "benchmark_1/ffnn.pth", "w") as archive:
    archive.writestr("ffnn/data.pkl", b"not read")
    for number, array in enumerate(arrays):
      archive.writestr(f"ffnn/data/{number}", array.tobytes())
  return folder, arrays


def test_published_weights_are_read_without_their_pickle(weights):
  folder, arrays = weights
  model = ctd_jax.ValidityModel.load("chronocept/benchmark_1", sources=folder)
  vectors = DRAW.normal(size=(2, 6912)).astype(np.float32)
  hidden = vectors
  for kernel, bias in zip(arrays[::2], arrays[1::2], strict=True):
    last = hidden @ kernel.T + bias
    hidden = np.maximum(last, 0)
  ((read, scaler),) = model.models
  actual = model.system.predict(read, {"vectors": vectors})
  np.testing.assert_allclose(actual, last, rtol=1e-3, atol=1e-2)
  train = sample_records.read_target_statistics()["benchmark_1"]["train"]
  assert scaler.inverse(np.zeros(3)) == pytest.approx(train.mean)
  assert model.reads_axes
  assert not model.is_synthetic
  assert model.features.max_length == 128
  path = folder / "benchmark_1/ffnn.pth"
  path.write_bytes(b"PK no zip")
  with pytest.raises(SourceError, match="not the authors' feed-forward"):
    published_weights.read_weights(path)


def test_own_statements_are_divided_or_have_splits(tmp_path, caplog):
  path = tmp_path / "own.csv"
  path.write_text(statements())
  with caplog.at_level("INFO", "absl"):
    samples = load.load_samples(f"csv:{path}")
  assert "train 14, validation 4, test 2" in caplog.text
  assert "2 statements in the test split: too few" in caplog.text
  assert {s: len(v) for s, v in samples.items()} == {
    "train": 14, "validation": 4, "test": 2
  }  # fmt: skip
  lines = statements().splitlines()
  path.write_text("\ufeff" + "\n".join(lines[:1] + lines[:0:-1]) + "\n")
  again = load.load_samples(f"csv:{path}")
  for split in samples:
    assert {s.sample_id for s in again[split]} == {
      s.sample_id for s in samples[split]
    }
  path.write_text(
    "text,split,location,scale,skewness,negation,log_base\n"
    '"It is, so",train,2,1,0,not open,2\nB,test,1,1,0,,\n'
  )
  samples = load.load_samples(f"csv:{path}")
  (first,) = samples["train"]
  assert (first.sample_id, first.log_base) == ("row1", 2)
  assert first.axes["negation"] == "not open"
  assert samples["test"][0].log_base == 1.1


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", ":1: no column text, location, scale, skewness; expected the head"),
    ("id,text\n", ":1: no column location, scale, skewness; expected"),
    (HEADER, "no annotated statement"),
    (
      HEADER + "\na,A,1,2,1" + "\nb,B,1,2,1",
      "2 statements; expected at least 6, two for each of train, validation",
    ),
    (f"{HEADER}\na,It is.,1,0,0", ":2: .*scale: .* > 0.0; it is 0"),
    (f"{HEADER}\na,It is.,1,2,high", ":2: skewness='high': Expected `float`"),
    (f"{HEADER}\na,It is.,,2,1", ":2: location is empty"),
    (f"{HEADER}\na,It, is.,1,2,1", ":2: expected 5 columns; quote"),
    (f"{HEADER}\na,,1,2,1", ":2: text is empty"),
    (
      f"{HEADER}\na,A,1440,2,1",
      ":2: .*over 10,000 years; .*a day is 76.3",
    ),
    (HEADER.replace(",", ";"), "separated by semicolons, expected commas"),
    (f"{HEADER}\na,A,1,2,1\na,B,1,2,1", ":3: the id a occurs twice"),
    (f"{HEADER},split\na,A,1,2,1,dev", ":2: split='dev'; expected train"),
  ],
)
def test_bad_own_statements_are_named(tmp_path, text, message):
  path = tmp_path / "own.csv"
  path.write_text(text)
  with pytest.raises(SourceError, match=f"{path}.*{message}"):
    load.load_samples(f"csv:{path}")


def task(number, *annotations, **data):
  """Returns a task of Label Studio's JSON export."""
  return {
    "id": number,
    "data": {"text": "It is shut, not open.", **data},
    "annotations": [
      {"id": n, "was_cancelled": False, "result": result}
      for n, result in enumerate(annotations)
    ],
  }


def field(name, **value):
  kind = "labels" if "labels" in value else "textarea" if "text" in value else 0
  return {"from_name": name, "type": kind or "number", "value": value}


def annotated(location):
  return [
    field("location", number=location),
    field("scale", text=["8.5"]),
    field("skewness", number=0),
    field("axes", start=12, end=20, text="not open", labels=["Negation"]),
    field("axes", start=0, end=10, text="It is shut", labels=["Main outcome"]),
  ]


def test_label_studio_exports_are_read(tmp_path):
  path = tmp_path / "export.json"
  tasks = [
    task(1, annotated(40), annotated(44), split="train"),
    task(2, annotated(50), split="test"),
    task(3),
  ]
  path.write_text(json.dumps(tasks))
  samples = load.load_samples(f"json:{path}")
  (first,) = samples["train"]
  assert first.targets == (42, 8.5, 0)
  assert first.axes["negation"] == "not open"
  assert first.axes["main_outcome"] == "It is shut"
  assert [s.sample_id for s in samples["test"]] == ["2"]
  for change, message in (
    ({"data": {}}, r"record 1 \(task 1\): not a task of Label Studio's"),
    ({"annotations": [{"result": []}]}, "no annotation has the field location"),
    (
      task(1, [field("axes", start=0, end=1, text="a", labels=["Zeit"])]),
      "label 'Zeit': expected one of main_outcome",
    ),
  ):
    path.write_text(json.dumps([tasks[0] | change]))
    with pytest.raises(SourceError, match=message):
      load.load_samples(f"json:{path}")


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
  text = (TUTORIAL / "own-statements.md").read_text("utf-8")
  commands = [
    shlex.split(line)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
  ]
  monkeypatch.chdir(tmp_path)
  pathlib.Path("statements.csv").write_text(statements())
  assert {name for _, name, *_ in commands} == {
    "train", "compare-validity", "validity"
  }  # fmt: skip
  for _, name, *arguments in commands:
    options = dict(
      argument[2:].split("=", 1)
      for argument in arguments
      if argument.startswith("--")
    )
    if name == "train":
      config = chronocept.get_config(options["config"].partition(":")[2])
      config.dataset = options["config.dataset"]
      experiment.run_experiment(config, pathlib.Path(options["workdir"]))
    elif name == "compare-validity":
      workdirs = options["workdirs"].split(",")
      values = types.SimpleNamespace(workdirs=workdirs)
      monkeypatch.setattr(compare.flags, "FLAGS", values)
      compare.main()
    else:
      texts = [a for a in arguments if not a.startswith("--")]
      run_command(monkeypatch, *texts, **options)
  assert "tfidf (honest)" in capsys.readouterr().out
  assert (tmp_path / "curve.png").exists()
  assert (tmp_path / "curves.csv").exists()
