#!/usr/bin/python3
"""Runs make for a script. After ^C, the script says one line, instead of a line of make for each thing that it was making.

    tools/stele/quiet_make.py NAME make GOAL…        NAME is the script's name in that line
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from stele import children, entry, progress  # noqa: E402


def run(command, **options):
    """Runs the command, whose output goes to standard error. `options` are those of Popen. Returns the exit status."""
    return children.run(command, progress.to_standard_error, stdout=sys.stderr, **options).returncode


def main():
    with progress.Progress(sys.argv[1]) as shown:
        shown.phase("make")
        return run(sys.argv[2:])


if __name__ == "__main__":
    entry.run(main, sys.argv[1])
