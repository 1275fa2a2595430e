"""What the guest tests share: running a script in the guest."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STELE_BUILD", ROOT / "build"))


class Result:
    def __init__(self, status, stdout, stderr):
        self.status, self.stdout, self.stderr = status, stdout, stderr

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def text(data):
    return data.decode("utf-8", "replace")


def guest(script, *options, log=True):
    """Runs `script` in the guest. The kernel's log is left out of stderr unless `log` is false."""
    command = [str(ROOT / "scripts/guest"), "--no-build", *options, "-c", script]
    if log:
        command[1:1] = ["--log", "/dev/null"]
    run = subprocess.run(command, capture_output=True, check=False)
    return Result(run.returncode, text(run.stdout), text(run.stderr))


def leaktest(command, *options):
    run = subprocess.run([str(ROOT / "scripts/leaktest"), *options, command], capture_output=True, check=False)
    return Result(run.returncode, text(run.stdout), text(run.stderr))
