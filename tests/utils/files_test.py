"""Files: whole or not at all, with the errors of bad ones."""

import os
import stat

import pytest

from ctd_jax.utils import files


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_writes_whole_files_with_folders(tmp_path, monkeypatch, umask):
  path = tmp_path / "a" / "b.txt"
  earlier = os.umask(umask)
  try:
    with monkeypatch.context() as patch:
      patch.delattr(os, "umask")  # it is that of all threads
      files.write_text(path, "五月\n")
  finally:
    os.umask(earlier)
  assert path.read_text(encoding="utf-8") == "五月\n"
  assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
  path = tmp_path / "b.txt"
  files.write_text(path, "old")
  with pytest.raises(UnicodeEncodeError):
    files.write_text(path, "new \ud800")
  assert path.read_text() == "old"
  assert list(tmp_path.iterdir()) == [path]


def test_bytes_that_are_no_text_are_named(tmp_path):
  path = tmp_path / "b.txt"
  path.write_bytes(b"ab\xff")
  with pytest.raises(ValueError, match=r"b\.txt: not UTF-8 at byte 2"):
    files.read_text(path)


def test_line_ends_of_any_system_are_read(tmp_path):
  path = tmp_path / "b.txt"
  path.write_bytes("五月\r\n六月\r".encode())
  assert files.read_text(path) == "五月\n六月\n"


def test_a_path_keeps_its_kind(tmp_path):
  assert files.as_path(str(tmp_path)) == tmp_path
  assert str(files.as_path("gs://bucket/run.trec")) == "gs://bucket/run.trec"


def test_without_a_checkout_the_commit_is_that_of_the_image(
  monkeypatch, tmp_path
):
  monkeypatch.setattr(files, "__file__", str(tmp_path / "files.py"))
  monkeypatch.delenv("CTD_JAX_COMMIT", raising=False)
  assert files.code_commit() == ""
  monkeypatch.setenv("CTD_JAX_COMMIT", "abc123")
  assert files.code_commit() == "abc123"
  # Without git at all, as in the image.
  monkeypatch.setenv("PATH", str(tmp_path))
  assert files.code_commit() == "abc123"


@pytest.mark.parametrize(
  "name",
  [
    *("", ".", "..", "../b", "a/../../b", "/etc/passwd", "gs://bucket/b"),
    *("a\\..\\b", "a\0b", "link", "link/b", "a/link"),
  ],
)
def test_names_that_lead_out_of_a_folder_are_refused(tmp_path, name):
  folder = tmp_path / "folder"
  (folder / "a").mkdir(parents=True)
  for link in (folder / "link", folder / "a" / "link"):
    link.symlink_to(tmp_path)
  with pytest.raises(ValueError, match=r"leads out|symbolic|not the name"):
    files.inside(folder, name)


def test_names_inside_a_folder_become_paths(tmp_path):
  link = tmp_path / "link"
  link.symlink_to(tmp_path)
  # The folder itself is the user's choice.
  assert files.inside(link, "a/左傳.npy") == link / "a" / "左傳.npy"
  assert str(files.inside("gs://bucket/run", "1/a")) == "gs://bucket/run/1/a"


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "pipe"])
def test_a_tree_holds_only_files_and_folders(tmp_path, kind):
  folder = tmp_path / "folder"
  files.write_text(folder / "a" / "b.txt", "b")
  files.check_tree(folder)
  odd = folder / "a" / "odd"
  if kind == "pipe":
    os.mkfifo(odd)
  else:
    odd.symlink_to("/etc/passwd" if "file" in kind else "/etc")
  with pytest.raises(ValueError, match="odd is a link or a special file"):
    files.check_tree(folder)


def test_a_file_larger_than_expected_is_not_read(tmp_path):
  path = tmp_path / "a"
  path.write_bytes(b"four")
  assert files.read_limited(path, 4) == b"four"
  with pytest.raises(ValueError, match="3 bytes"):
    files.read_limited(path, 3)


def test_what_is_private_is_read_by_its_owner_alone(tmp_path):
  path = tmp_path / "a" / "b" / "c"
  files.write_text(path, "c")
  (tmp_path / "other").touch(0o644)
  (tmp_path / "a" / "link").symlink_to(tmp_path / "other")
  files.make_private(tmp_path / "a", tmp_path / "missing")
  for private in (path, *path.parents[:2]):
    assert not private.stat().st_mode & 0o077
  assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o644
