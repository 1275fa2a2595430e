"""What gdb loads: `gdb -x tools/stele/debugger/gdbinit.py build/stele.elf`."""
import pathlib
import sys

import gdb

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))

from stele.debugger import commands  # noqa: E402

for setting in ("pagination off", "confirm off", "language c++", "python print-stack message"):
    gdb.execute(f"set {setting}")
gdb.execute(f"directory {ROOT}")  # files are named from there
commands.register()
