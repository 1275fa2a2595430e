"""The outermost call of a script. If something fails in the script's surroundings (a full
disk, a folder that is missing or may not be written, a program that is not installed, a closed
standard output), the call prints one line and ends with one status. Python's own answer would be a
traceback and the status 1, which has a meaning of its own in most scripts, such as a leak.
"""
import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import sys
import tempfile

from stele import children

before_last_word = lambda: None  # noqa: E731  # called before the end: removes what the script shows meanwhile (progress.py)
PREFIX = f"stele-{secrets.token_hex(4)}-"  # of the names of temporary files and folders that end with the script
INTERRUPTED = 128  # plus the number of the signal, as shells give it


def run(main, name, failed=2):
    """Calls main() and ends the process with the status that main() returns. If main() raises an exception, ends it with the status `failed` and one
    line that begins with the script's `name`. ^C ends the script's programs (children.py), and then the process with one line and the status 130.
    With `python3 -X dev`, an exception gives a traceback too."""
    _open_standard_files()
    children.end_on_signals()
    try:
        status = main()
        if status != failed:  # otherwise the reason is said already
            with naming("standard output"):
                sys.stdout.flush()
    except children.Interrupted as signalled:
        if signalled.number == signal.SIGINT:
            _say(f"{name}: interrupted")
        status = INTERRUPTED + signalled.number
    except SystemExit as end:
        if isinstance(end.code, str):
            _say(end.code)
        status = failed if isinstance(end.code, str) else end.code
    except Exception as error:  # pylint: disable=broad-except
        if sys.flags.dev_mode:
            raise
        status = failed
        if not isinstance(error, BrokenPipeError):  # the reader of the output has gone, and does not want a line
            _say(f"{name}: {one_line(error)}")
    children.wait_for_all()
    _remove_temporary_files()
    _drop_output()
    sys.exit(status)


def one_line(error):
    """Returns a description of the exception in one line. An OSError gives the file and the system's words. Any other exception without a text
    gives the name of its type."""
    if isinstance(error, OSError) and error.strerror:
        files = [str(file) for file in (error.filename, error.filename2) if file is not None]
        return " ".join(": ".join([*files, error.strerror]).split())
    return " ".join(str(error).split()) or type(error).__name__


def temporary_folder():
    """Returns $TMPDIR, or None if it is not set: the folder for tempfile's `dir`. By itself, tempfile silently takes another folder if $TMPDIR cannot
    be used, and a person who set it wanted none of the others."""
    return os.environ.get("TMPDIR") or None


def _remove_temporary_files():
    """Removes what a signal has left: one that comes between the making of a temporary file and the next instruction, for example."""
    with contextlib.suppress(OSError):
        for path in pathlib.Path(temporary_folder() or tempfile.gettempdir()).glob(PREFIX + "*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path):
    """A context manager: an OSError that names no file gets the file `path`. A write to an open file raises such an error."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


def write(path, data):
    """Writes the bytes `data` to the file `path`. An OSError names the file."""
    with naming(path):
        pathlib.Path(path).write_bytes(data)


def _open_standard_files():
    """Opens /dev/null in place of standard files that are closed. Otherwise the next file that is opened would become standard output."""
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        null = os.dup(null)
    os.close(null)
    sys.stdin = sys.stdin or open(0, closefd=False, encoding="utf-8")
    sys.stdout = sys.stdout or open(1, "w", closefd=False, encoding="utf-8")
    sys.stderr = sys.stderr or open(2, "w", closefd=False, encoding="utf-8")


def _say(line):
    before_last_word()
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _drop_output():
    """Drops output that could not be written, so that Python does not try again at exit and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
