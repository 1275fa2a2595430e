"""scripts/setup: which packages are missing, and what the script does about it. dpkg-query, apt-get and id are scripts here."""
import os
import subprocess

import pytest

from guest import ROOT

QEMU = "installed qemu-system-x86, qemu-system-any, qemu-kvm (= 1:10.0)\ninstalled python3-tqdm, "


@pytest.fixture
def setup(tmp_path):
    """Returns a function that runs scripts/setup as the user `uid` on a system whose dpkg-query prints `packages` and whose apt-get runs the shell
    commands `apt`. The function returns the run and the list of calls of apt-get."""
    calls = tmp_path / "calls"

    def program(name, text):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run(packages, uid=0, group="run", apt="", **environment):
        program("dpkg-query", f"cat <<'END'\n{packages}\nEND")
        program("apt-get", f'echo "$@" >> {calls}\n{apt}')
        program("id", f"echo {uid}")
        done = subprocess.run([ROOT / "scripts/setup", group], env={"PATH": f"{tmp_path}:{os.defpath}:/usr/bin:/bin", **environment},
                              capture_output=True, text=True, check=False)
        return done, calls.read_text().splitlines() if calls.exists() else []

    return run


@pytest.mark.parametrize("libdw", ("installed libdw1, ", "installed libdw1t64, libdw1 (= 0.192-4)", "installed other, b, libdw1:any (= 1), c"))
def test_a_package_may_have_another_name(setup, libdw):
    run, calls = setup(f"{QEMU}\n{libdw}")
    assert (run.returncode, run.stderr, calls) == (0, "", []), run


@pytest.mark.parametrize("libdw", ("not-installed libdw1, ", "config-files libdw1t64, libdw1 (= 0.192-4)", "installed libdw1-dev, libdw1-x", ""))
def test_root_is_told_what_is_installed(setup, libdw):
    run, calls = setup(f"{QEMU}\n{libdw}")
    assert run.returncode == 0 and run.stderr.startswith("setup: installing the Debian packages libdw1 (") and run.stderr.count("\n") == 1, run
    assert len(calls) == 2 and calls[1].endswith(" libdw1"), calls


def test_another_apt_is_at_work(setup):
    """The lists are locked: update fails at once, and install waits for the other."""
    run, calls = setup(QEMU, apt='[ "$1" = install ]')
    assert run.returncode == 0 and "lists of packages stay as they are" in run.stderr, run
    assert len(calls) == 2 and "DPkg::Lock::Timeout=" in calls[1], calls


@pytest.mark.parametrize("uid, environment", ((0, {"SETUP": "ask"}), (1000, {}), (1000, {"SETUP": "ask"})))
def test_one_line_to_type(setup, uid, environment):
    run, calls = setup(QEMU, uid, **environment)
    assert run.returncode == 1 and run.stderr.endswith(": apt-get install --no-install-recommends libdw1\n") and run.stderr.count("\n") == 1, run
    assert not calls


def test_the_real_system_is_understood():
    """dpkg-query's own answer, if this system has it: the groups that the tests need are installed."""
    run = subprocess.run([ROOT / "scripts/setup", "build", "run", "test"], env={**os.environ, "SETUP": "ask"}, capture_output=True, text=True,
                         check=False)
    assert run.returncode == 0, run
