"""One line on standard error that says what a tool does, how much of it is done, and how long the rest takes.

On a terminal it is a progress bar (tqdm, if it is installed). Elsewhere it is a line after a second, and then one every ten seconds. Other output on
standard error goes through written(), which puts it above the bar.
"""
import contextlib
import sys
import threading
import time

from stele import entry

FIRST, SECONDS = 0.9, 10.0  # of the first plain line, and between plain lines
TICK = 0.5
_lock = threading.RLock()
_shown = None  # the Progress that is shown


class Progress:
    """A context manager. The tool's `name` begins the line. `stream`: a file instead of standard error."""

    def __init__(self, name, stream=None):
        self.stream = stream or sys.stderr
        self.name, self.text, self.total, self.by_time = name, "", None, False
        self.bar, self.ended, self.done, self.begun = None, threading.Event(), 0, time.monotonic()
        self.plain = self.begun - SECONDS + FIRST  # when the last plain line was written
        self.ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self):
        global _shown  # pylint: disable=global-statement
        _shown = self
        entry.before_last_word = self.close
        self.ticker.start()
        return self

    def __exit__(self, *_):
        self.close()

    def phase(self, text, total=None, by_time=False):
        """Begins a phase of `total` steps; None: the number is not known. With `by_time` the steps are seconds, and pass by themselves."""
        with _lock:
            self._clear()
            self.text, self.total, self.by_time, self.done, self.begun = text, total, by_time, 0, time.monotonic()
            tqdm = _tqdm()
            if tqdm and self.stream.isatty() and not self.ended.is_set():
                shape = "{desc} {n:.0f}/{total:.0f} |{bar}| {elapsed}, {remaining} left" if total else "{desc} {n:.0f}, {elapsed}"
                self.bar = tqdm(desc=f"{self.name}: {text}", total=total, file=self.stream, leave=False, dynamic_ncols=True, bar_format=shape)

    def step(self, steps=1):
        with _lock:
            self._set(self.done + steps)

    def close(self):
        """Removes the bar."""
        global _shown  # pylint: disable=global-statement
        self.ended.set()
        with _lock:
            self._clear()
            _shown = None if _shown is self else _shown

    def _clear(self):
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _set(self, done):
        self.done = done if self.total is None else min(done, self.total)
        if self.bar is not None:
            self.bar.n = self.done

    def _tick(self):
        while not self.ended.wait(TICK if self.plain > self.begun - FIRST else FIRST):
            with _lock:
                if not self.text or self.ended.is_set():
                    continue
                if self.by_time:
                    self._set(int(time.monotonic() - self.begun))
                if self.bar is not None:
                    self.bar.refresh()
                elif time.monotonic() - self.plain >= SECONDS:
                    self.plain = time.monotonic()
                    with contextlib.suppress(OSError):
                        print(self, file=self.stream, flush=True)

    def __str__(self):
        spent = time.monotonic() - self.begun
        words = f"{self.name}: {self.text} {self.done}" + (f"/{self.total:.0f}" if self.total else "") + f", {spent:.0f} s"
        if self.total and 0 < self.done < self.total:
            words += f", {spent * (self.total - self.done) / self.done:.0f} s left"
        return words


@contextlib.contextmanager
def written():
    """A context manager for other output on the terminal: the bar is away meanwhile."""
    if not _shown or _shown.bar is None:  # without the lock, because the output may have to wait for its reader
        yield
        return
    with _lock:
        bar = _shown.bar if _shown else None
        if bar is not None:
            bar.clear()
        try:
            yield
        finally:
            if bar is not None:
                bar.refresh()


def say(*words, **options):
    """Is print(), above the bar."""
    with written():
        print(*words, **options)


def counter(word, step):
    """Returns a function that takes parts of an output, and calls `step` with the number of `word`s that each part completes."""
    last = b""

    def count(part):
        nonlocal last
        last += part
        if found := last.count(word):
            step(found)
        last = last[-len(word) + 1:]
    return count


def to_standard_error(line):
    with written():
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()


def _tqdm():
    try:
        from tqdm import tqdm  # pylint: disable=import-outside-toplevel  # may be missing
    except ImportError:
        return None

    class Bar(tqdm):
        disable = True  # until it is made: otherwise a signal meanwhile gives a traceback
    return Bar
