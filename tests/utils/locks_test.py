"""Locks of the requirements agree with setup.py; the Dockerfile uses them."""

import fnmatch
import re
import shutil
import subprocess
import sysconfig

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tools import lock_requirements as locks

ROOT = locks.ROOT
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def read_releases(path) -> dict[str, str]:
  """Returns the release of each package of a lock."""
  pins = locks.read_pins(path.read_text(encoding="utf-8"))
  return {
    canonicalize_name(name): lines.split("==")[1].split()[0]
    for name, lines in pins.items()
  }


@pytest.mark.parametrize("python", locks.PYTHONS)
@pytest.mark.parametrize("extra", ["", *locks.ADDED])
def test_locked_releases_are_those_that_setup_allows(python, extra):
  releases = read_releases(locks.lock_path(python))
  extras = [*locks.PRODUCT, extra] if extra else locks.PRODUCT
  if extra:
    releases |= read_releases(locks.lock_path(python, extra))
  for text in locks.select_requirements(extras):
    requirement = Requirement(text)
    release = releases.get(canonicalize_name(requirement.name))
    assert release, f"{text} is not locked: {locks.COMMAND}"
    assert release in requirement.specifier, f"{text}: {locks.COMMAND}"


@pytest.mark.parametrize("python", locks.PYTHONS)
def test_any_locks_of_a_python_can_be_installed_together(python):
  build = read_releases(locks.FOLDER / "build.txt")
  product = read_releases(locks.lock_path(python))
  added = [read_releases(locks.lock_path(python, e)) for e in locks.ADDED]
  for other in (*added, build):
    for name, release in other.items():
      for releases in (product, *added):
        assert releases.get(name, release) == release
  # The others add to the first, and repeat nothing of it.
  for releases in added:
    assert releases
    assert not releases.keys() & product.keys()


def test_what_builds_is_what_the_project_asks_for():
  releases = read_releases(locks.FOLDER / "build.txt")
  for text in locks.read_build_requirements():
    requirement = Requirement(text)
    assert releases[canonicalize_name(requirement.name)] in (
      requirement.specifier
    )


def test_every_extra_is_locked_or_left_out_for_a_reason():
  _, extras = locks.read_requirements()
  locked = {*locks.PRODUCT, *locks.ADDED}
  assert locked | locks.NOT_LOCKED.keys() == extras.keys()
  assert not locked & locks.NOT_LOCKED.keys()
  assert all(locks.NOT_LOCKED.values())


def test_every_line_is_a_release_with_hashes_and_none_an_address():
  paths = sorted(locks.FOLDER.iterdir())
  assert len(paths) == 1 + len(locks.PYTHONS) * (1 + len(locks.ADDED))
  for path in paths:
    text = path.read_text(encoding="utf-8")
    # Requirements, hashes and the head: no option, no address.
    lines = r"(#.*|[\w.-]+==[\w.!+]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?)"
    for line in text.splitlines():
      assert re.fullmatch(lines, line), f"{path}: {line}"
    assert "://" not in text
    for lines in locks.read_pins(text).values():
      assert "--hash=sha256:" in lines
      assert not lines.rstrip("\n").endswith("\\")


def test_reading_a_lock_keeps_the_lines_of_each_package():
  text = (
    "# head\na==1 \\\n    --hash=sha256:0\nb-c==2.0 \\\n    --hash=sha256:1\n"
  )
  pins = locks.read_pins(text)
  assert list(pins) == ["a", "b-c"]
  assert "# head\n" + "".join(pins.values()) == text
  assert list(locks.drop_pins(pins, {"a"})) == ["b-c"]


@pytest.mark.slow
def test_dockerfile_is_clean():
  hadolint = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
  assert hadolint, "hadolint is missing: pip install -e .[test]"
  result = subprocess.run(
    [hadolint, "--no-color", ROOT / "Dockerfile"],
    capture_output=True,
    text=True,
    check=False,
  )
  assert result.returncode == 0, result.stdout


def is_in_context(name: str) -> bool:
  """Whether .dockerignore lets a path at the top of the clone through."""
  lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
  passes = True
  for line in lines:
    if line and not line.startswith("#"):
      pattern = line.removeprefix("!")
      if fnmatch.fnmatch(name, pattern):
        passes = line.startswith("!")
  return passes


def test_what_is_copied_exists_and_is_in_the_context():
  copies = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
  sources = [source for copy in copies for source in copy.split()[:-1]]
  assert {"ctd_jax", "data", "configs", "constraints"} <= set(sources)
  for source in sources:
    assert (ROOT / source).exists(), source
    assert is_in_context(source.partition("/")[0]), source
  for name in (".git", "runs", ".venv", "tests"):
    assert not is_in_context(name)


def test_images_are_of_a_locked_python_and_take_nothing_unlocked():
  (default,) = set(re.findall(r"^ARG PYTHON=(.+)$", DOCKERFILE, re.MULTILINE))
  assert default in locks.PYTHONS
  stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
  assert stages[-3:] == ["cpu", "cuda", "tpu"]
  installs = re.findall(r"pip install ((?:.|\\\n)+?)(?:$|&&)", DOCKERFILE, re.M)
  assert len(installs) == 8
  for arguments in installs:
    assert re.search("--require-hashes|--no-deps --no-index", arguments)
  assert "--no-build-isolation --no-deps" in DOCKERFILE  # of the wheel
