"""Locks of the requirements: a release and its hashes for every package.

  python -m tests.tools.lock_requirements [--upgrade]

Written into constraints/, for every version of Python in `PYTHONS`:

  py3.11.txt       the core and what the product imports when it is there
  py3.11-cuda.txt  what the extra adds to it; the same for the rest of `ADDED`
  build.txt        what builds the package, on any Python

All extras of a version are resolved together, so that any of its files can be
installed with each other. A release that is locked stays as long as setup.py
allows it; --upgrade takes the newest ones. No file names an index. It needs uv
(pip install 'ctd_jax[lock]'), and not the versions of Python themselves.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "constraints"
COMMAND = "python -m tests.tools.lock_requirements"

PYTHONS = ("3.11", "3.13")
# glibc of Debian 11 and Ubuntu 20.04: the oldest that libtpu runs on.
PLATFORM = "x86_64-manylinux_2_31"
# Extras of the first file: the product imports them when it needs them.
PRODUCT = ("chronocept", "llm", "mcp", "pandas", "wandb", "web", "xlsx")
# Extras with a file of their own.
ADDED = ("cuda", "tpu", "test")
# Extras that are not locked, and why.
NOT_LOCKED = {
  "conversions": "a library to compare with",
  "baselines": "published models, with torch for the device at hand",
  "beam": "an environment of its own",
  "calendars": "makes tables that are in the repository",
  "dask": "installed beside beam",
  "docs": "part of test",
  "load": "an environment of its own",
  "lock": "makes the locks",
  "mteb": "part of parity",
  "parity": "published implementations, with torch for the device at hand",
  "tf": "an environment of its own",
}
_PIN = re.compile(r"([\w.-]+)==(\S+)")


def read_requirements() -> tuple[list[str], dict[str, list[str]]]:
  """Returns the requirements of setup.py: of the core, and of each extra."""
  tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
  values = {
    node.targets[0].id: node.value
    for node in tree.body
    if isinstance(node, ast.Assign)
  }
  return (
    ast.literal_eval(values["INSTALL_REQUIRES"]),
    ast.literal_eval(values["EXTRAS_REQUIRE"]),
  )


def read_build_requirements() -> list[str]:
  """Returns the requirements of pyproject.toml, which build the package."""
  text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
  return tomllib.loads(text)["build-system"]["requires"]


def select_requirements(extras: Iterable[str]) -> list[str]:
  """Returns the requirements of the core with some extras."""
  core, by_extra = read_requirements()
  return core + [name for extra in extras for name in by_extra[extra]]


def lock_path(python: str, extra: str = "") -> pathlib.Path:
  """Returns the path of a lock.

  Args:
    python: version, e.g. "3.11".
    extra: of `ADDED`; "" = the core with `PRODUCT`.
  """
  return FOLDER / (f"py{python}-{extra}.txt" if extra else f"py{python}.txt")


def read_pins(text: str) -> dict[str, str]:
  """Returns the lines of each package in a lock, by its name."""
  pins = {}
  for line in text.splitlines(keepends=True):
    if match := _PIN.match(line):
      name = match[1]
      pins[name] = line
    elif line.startswith(" "):
      pins[name] += line
  return pins


def resolve(
  requirements: Sequence[str],
  python: str,
  pins: Mapping[str, str],
  arguments: Sequence[str] = (),
) -> dict[str, str]:
  """Returns the lines of each package that requirements need, by its name.

  Args:
    requirements: as in setup.py.
    python: version.
    pins: lines of packages whose releases are taken where they are allowed.
    arguments: further ones of `uv pip compile`.

  Raises:
    subprocess.CalledProcessError: if they contradict each other.
  """
  output = FOLDER / ".resolved.txt"  # uv prefers what its output has
  output.write_text("".join(pins.values()), encoding="utf-8")
  command = [
    *(sys.executable, "-m", "uv", "pip", "compile", "-", "--quiet"),
    *("--python-version", python, "--python-platform", PLATFORM),
    *("--generate-hashes", "--no-annotate", "--no-header"),
    *("--no-emit-index-url", "--no-emit-find-links", f"--output-file={output}"),
    *arguments,
  ]
  try:
    subprocess.run(
      command, input="\n".join(requirements), text=True, check=True, cwd=ROOT
    )
    return read_pins(output.read_text(encoding="utf-8"))
  finally:
    output.unlink()


def write_lock(
  path: pathlib.Path, subject: str, pins: Mapping[str, str]
) -> None:
  """Writes a lock with a head that says of what it is."""
  head = f"# {subject}\n# Made by {COMMAND}; see docs/development.md.\n"
  path.write_text(head + "".join(pins.values()), encoding="utf-8")
  print(f"{path.relative_to(ROOT)}: {len(pins)} packages")


def drop_pins(
  pins: Mapping[str, str], names: Collection[str]
) -> dict[str, str]:
  """Returns the packages that are not among `names`."""
  return {name: lines for name, lines in pins.items() if name not in names}


def lock_python(python: str, arguments: Sequence[str]) -> None:
  """Writes the locks of a version of Python.

  Args:
    python: version.
    arguments: further ones of `uv pip compile`.
  """
  pins = {}
  for extra in ("", *ADDED):
    path = lock_path(python, extra)
    pins |= read_pins(path.read_text(encoding="utf-8")) if path.exists() else {}
  pins = resolve(
    select_requirements((*PRODUCT, *ADDED)), python, pins, arguments
  )
  product = resolve(select_requirements(PRODUCT), python, pins)
  platform = f"Python {python}, x86-64 Linux"
  write_lock(
    lock_path(python), f"ctd_jax[{','.join(PRODUCT)}]; {platform}", product
  )
  for extra in ADDED:
    added = resolve(select_requirements((*PRODUCT, extra)), python, pins)
    write_lock(
      lock_path(python, extra),
      f"What ctd_jax[{extra}] adds to {lock_path(python).name}; {platform}",
      drop_pins(added, product),
    )


def main() -> None:
  """Writes all locks."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--upgrade",
    action="store_true",
    help="take the newest releases, not those that are locked",
  )
  arguments = ["--upgrade"] if parser.parse_args().upgrade else []
  FOLDER.mkdir(exist_ok=True)
  build_path = FOLDER / "build.txt"
  pins = {}
  if build_path.exists():
    pins = read_pins(build_path.read_text(encoding="utf-8"))
  pins = resolve(read_build_requirements(), PYTHONS[0], pins, arguments)
  write_lock(build_path, "What builds ctd_jax; any Python", pins)
  for python in PYTHONS:
    lock_python(python, arguments)


if __name__ == "__main__":
  main()
