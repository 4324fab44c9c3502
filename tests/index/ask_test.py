"""The command `ask`: forms, status, errors in one line."""

import json

import pytest

from tests.tools import processes


def ask(*arguments, **options):
  return processes.run_python("-m", "ctd_jax.ask", *arguments, **options)


def test_answer_is_printed_and_written(index_folder, tmp_path):
  html = tmp_path / "answer.html"
  options = f"--index={index_folder}", "--k=2", f"--html={html}"
  result = ask("魯隱公", "元年", *options)
  assert result.returncode == 0, result.stderr
  assert "元年，春，王正月。" in result.stdout
  outcome = " ".join(result.stdout.split())
  assert "2 shown of 4 found, of 9 records; 4 fall in this time" in outcome
  assert "--offset=2 shows more" in outcome
  assert "\x1b" not in result.stdout
  assert "魯隱公 元年" in html.read_text(encoding="utf-8")


def test_question_comes_from_the_standard_input_too(index_folder):
  folder = f"--index={index_folder}"
  result = ask(folder, "--json", "-", input="魯隱公元年五月\n")
  assert result.returncode == 0, result.stderr
  content = json.loads(result.stdout)
  assert [record["row"] for record in content["results"]] == [3]


def test_offset_beyond_the_last_record_is_said(index_folder):
  result = ask(f"--index={index_folder}", "魯隱公元年", "--offset=99")
  assert result.returncode == 1
  assert "no more than 4 found" in result.stdout


def test_status_says_that_nothing_was_found(index_folder):
  result = ask(f"--index={index_folder}", "魯莊公元年五月")
  assert result.returncode == 1
  assert "nothing found" in result.stdout
  assert not result.stderr


@pytest.mark.parametrize("question", ["-0721", "西暦前722年", "722 BCE"])
def test_years_before_the_common_era_are_questions(index_folder, question):
  result = ask(f"--index={index_folder}", "--json", question)
  assert result.returncode == 0, result.stderr
  rows = [record["row"] for record in json.loads(result.stdout)["results"]]
  assert rows == [1, 2, 3, 4]


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--index={folder}"], "the question is missing; write one after"),
    (["元年"], "--index is missing"),
    (["--index={folder}", "寶元元年"], "寶元"),
    (["--index={folder}", "元年", "--intent=when"], "time|words|passage"),
  ],
)
def test_errors_are_one_line_with_status_2(index_folder, arguments, message):
  result = ask(*(it.format(folder=index_folder) for it in arguments))
  assert result.returncode == 2
  assert message in result.stderr
  assert len(result.stderr.strip().splitlines()) == 1
