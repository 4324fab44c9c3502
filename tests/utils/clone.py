"""Copy of the clone with a stand-in for Python, for tests of launch/."""

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Slurm runs a copy, from a folder of its own.
SLURM = "../spool/slurm_script"
# Answers what the scripts ask a Python, and writes every other call to a file.
STAND_IN = """#!/bin/bash
case "$*" in
  *"version_info[:2]"*) echo py3.11 && exit ;;
  *version_info*) exit {old} ;;
esac
printf '%s\\n' "$*" >>"{log}"
case "$*" in
  *"{fails}"*) exit {status} ;;
  *venv*) mkdir -p "${{@: -1}}/bin" && cp "$0" "${{@: -1}}/bin/python" &&
    cp "$0" "${{@: -1}}/bin/pip" ;;
esac
"""


class Clone:
  """A copy of the scripts, and the calls they make to a stand-in Python."""

  def __init__(self, folder: pathlib.Path):
    self.root = folder / "a clone"
    self.log = folder / "calls"
    for name in ("launch", "constraints", ".ci"):
      shutil.copytree(ROOT / name, self.root / name)
    shutil.copy(ROOT / "setup.py", self.root)
    self.env = {"PATH": os.environ["PATH"], "HOME": str(folder)}

  def stand_in(
    self, path: pathlib.Path, *, old=0, fails="\n", status=7
  ) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
      STAND_IN.format(old=old, log=self.log, fails=fails, status=status)
    )
    path.chmod(0o755)
    return path

  def activate(self, **kwargs) -> pathlib.Path:
    python = self.stand_in(self.root.parent / "env/bin/python", **kwargs)
    self.env["VIRTUAL_ENV"] = str(python.parents[1])
    return python

  def run(self, script: str, *args: str, cwd=None, status=0):
    """Returns what a script did, which ends with a status."""
    result = subprocess.run(
      [self.root / script, *args],
      env=self.env,
      cwd=cwd or self.root,
      stdin=subprocess.DEVNULL,
      capture_output=True,
      text=True,
      check=False,
    )
    assert result.returncode == status, result.stderr
    return result

  def refuse(self, script: str, *args: str) -> str:
    """Returns the error of a script, which calls nothing before."""
    error = self.run(script, *args, status=1).stderr
    assert not self.calls()
    return error

  def place_slurm(self, status: int = 0, **env: str) -> pathlib.Path:
    """Returns the Python of a job of Slurm, whose script is `SLURM`."""
    python = self.activate()
    self.tool("srun", status)
    self.tool("scontrol")
    spool = self.root.parent / "spool"
    spool.mkdir()
    shutil.copy(self.root / "launch/slurm.sbatch", spool / "slurm_script")
    self.env |= {"SLURM_JOB_ID": "12", "SLURM_SUBMIT_DIR": str(self.root)}
    self.env |= env
    return python

  def tool(self, name: str, status: int = 0) -> None:
    """Puts a program on PATH whose calls are logged, with its arguments."""
    path = self.root.parent / "tools" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
      f'#!/bin/bash\nprintf "%s\\n" "{name} $*" >>"{self.log}"\nexit {status}\n'
    )
    path.chmod(0o755)
    self.env["PATH"] = f"{path.parent}:{os.environ['PATH']}"

  def calls(self) -> list[str]:
    """Returns the calls since the last time this was asked."""
    calls = self.log.read_text().splitlines() if self.log.exists() else []
    self.log.unlink(missing_ok=True)
    return calls
