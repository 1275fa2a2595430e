"""gdb loads this file at its start. It sets gdb's settings, registers Stele's commands, and opens the guest or core that scripts/gdb names in
the environment."""
import os
import pathlib
import sys

import gdb

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

from stele.debugger import commands, replay  # noqa: E402


def open_target():
    core, sockets, run = (os.environ.get(name) for name in ("STELE_CORE", "STELE_GDB_SOCKET", "STELE_REPLAY"))
    try:
        if run:
            replay.open_run(run, os.environ.get("STELE_MOMENT"))
        elif core:
            gdb.execute(f"core-file {core}", to_string=True)
        elif sockets:
            gdb.execute(f"target remote {sockets}", to_string=True)
    except (gdb.error, gdb.GdbError) as error:
        print(f"gdb: {run or core or sockets}: {error}", file=sys.stderr)
        gdb.execute("quit 2")
    gdb.execute("set suppress-cli-notifications off")


for setting in ("pagination off", "confirm off", "language c++", "python print-stack message", "print inferior-events off",
                "suppress-cli-notifications on"):
    gdb.execute(f"set {setting}")
gdb.execute(f"directory {ROOT}")  # names of source files in the ELF file are relative to ROOT
commands.register()
open_target()
