"""Makes a Profile from a core (of scripts/guest --core, scripts/dump or make leaktest). Runs gdb, whose command kmem-tracedump writes the traces in
the layout of a dump. The guest may have been stopped at any instruction, so a record may be missing. In this case the counters disagree, and the
report says so."""
import pathlib
import subprocess
import tempfile
from types import SimpleNamespace

from stele.debugging import gdb, target
from stele.elfcore import CoreError
from stele.report import from_dump
from stele.report.profile import ReportError
from stele.tracedump import TraceDump, TraceDumpError

SECONDS = 600  # time limit for gdb


def read(path, lookup):
    """Returns the Profile of a core. Raises ReportError."""
    try:
        kernel, environment = target(SimpleNamespace(core=str(path), kernel=lookup.kernel_file, guest=None))
        with tempfile.TemporaryDirectory(prefix="stele-") as folder:
            file = pathlib.Path(folder) / "tracedump"
            run = gdb(kernel, environment, "-batch", "-ex", f"kmem-tracedump {file}", capture_output=True, text=True, errors="replace", timeout=SECONDS)
            if not file.exists():
                raise ReportError(f"{path}: {last_line(run)}")
            dump = TraceDump.load(file)
    except CoreError as error:
        raise ReportError(str(error)) from error
    except TraceDumpError as error:
        raise ReportError(f"{path}: its traces are damaged: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ReportError(f"{path}: gdb did not come to an end in {SECONDS} s") from error
    if not dump.sources:
        raise ReportError(f"{path}: nothing was traced in it: echo start > #mem/kmemtrace/ctl")
    profile = from_dump.profile_of(dump, lookup, str(path))
    profile.incomplete += [f"{source.name}: does not hold: {identity}" for source in dump.sources for identity in source.broken_identities()]
    return profile


def last_line(run):
    """Returns the message of the last error in gdb's output."""
    lines = [line for line in ((run.stderr or "") + "\n" + (run.stdout or "")).splitlines() if line.startswith(("kmem-tracedump: ", "gdb: "))]
    return lines[-1].partition(": ")[2] if lines else f"gdb ended with status {run.returncode} and has found no traces"
