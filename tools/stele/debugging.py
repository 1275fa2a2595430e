"""What scripts/gdb, scripts/dump, scripts/whatis and scripts/lost-at share: the choice of a guest or a
core, and gdb on it with Stele's commands."""
import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess

from stele import children, debug_sockets, elfcore
from stele.build import ROOT, build_folder

INIT = ROOT / "tools/stele/debugger/gdbinit.py"


def add_target(parser):
    """Adds the options that choose a guest or a core to an argument parser."""
    parser.add_argument("--guest", metavar="N", help="the guest of this number, if several run (printed by scripts/guest --debug and make run)")
    parser.add_argument("--core", metavar="FILE", help="a core instead of a running guest")
    parser.add_argument("--kernel", metavar="ELF", help="the kernel's ELF file (the guest's; for a core the one in build/ with its build id)")


def target(options):
    """Returns (the kernel's ELF file, environment variables that tell gdbinit.py which guest or core to open). Raises CoreError and
    NoGuest."""
    if options.core:
        kernels = [options.kernel] if options.kernel else [*build_folder().glob("stele.elf"), *sorted(build_folder().glob("variant/*/stele.elf"))]
        return elfcore.kernel_of(options.core, kernels), {"STELE_CORE": os.path.abspath(options.core)}
    sockets = debug_sockets.running(options.guest)
    kernel = options.kernel or (sockets / "kernel" if (sockets / "kernel").exists() else build_folder() / "stele.elf")
    return kernel, {"STELE_GDB_SOCKET": debug_sockets.path(sockets, "gdb")}


def ensure_installed():
    """Installs gdb, and the emulator that its commands use, if they are missing. Returns False if this failed; a line says why."""
    return bool(shutil.which("gdb") and importlib.util.find_spec("unicorn")) or subprocess.run([ROOT / "scripts/setup", "gdb"], check=False).returncode == 0


def gdb(kernel, environment, *arguments, **options):
    """Runs gdb on the guest or core, and first installs gdb if it is missing. Returns a CompletedProcess. Raises NoGuest if another gdb is
    connected to the guest."""
    if not ensure_installed():
        return subprocess.CompletedProcess([], 2)
    stub = environment.get("STELE_GDB_SOCKET")
    with open(f"{stub}.lock" if stub else os.devnull, "wb") as lock:
        try:
            if stub:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise debug_sockets.NoGuest("another gdb has the guest, which talks to one at a time") from error
        signal.signal(signal.SIGINT, lambda *_: None)  # gdb gets ^C, too, and decides what it means
        return subprocess.run(["gdb", "-nx", "-q", "-x", str(INIT), *arguments, os.path.realpath(kernel)],
                              env={**os.environ, "DEBUGINFOD_URLS": "", **environment}, check=False, **options)


class Inspector:
    """A gdb that opens one core of a kernel after the other, which is faster than a gdb for each. One thread at a time may use it."""

    _END = "end of the answer"

    def __init__(self, kernel):
        self.gdb = children.start(["gdb", "-nx", "-q", "-x", str(INIT), os.path.realpath(kernel)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, env={**os.environ, "DEBUGINFOD_URLS": ""})

    def ask(self, core, question):
        """Returns the dictionary that the command `question` prints as JSON about a core; None if it fails, or if the core cannot be read."""
        self.gdb.stdin.write(f"core-file\ncore-file {core}\n{question}\necho \\n{self._END}\\n\n")
        self.gdb.stdin.flush()
        answer = None
        for line in self.gdb.stdout:
            if line.strip().endswith(self._END):
                return answer
            text = line.removeprefix("(gdb) ").strip()
            if text.startswith("{"):
                answer = json.loads(text)
        return None

    def end(self):
        with contextlib.suppress(OSError):  # gdb has ended
            self.gdb.stdin.close()
        self.gdb.stdout.read()
        children.forget(self.gdb)
