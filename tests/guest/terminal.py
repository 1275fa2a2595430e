"""A terminal at the guest's console, on which tests type and read the screen. pyte emulates the terminal."""
import codecs
import os
import re
import select
import time

import pyte

from console import Console


class Answering(pyte.Screen):
    """A screen that reports the position of its cursor when a program asks for the position, as terminals do."""

    def __init__(self, columns, rows, answer):
        super().__init__(columns, rows)
        self._answer = answer

    def write_process_input(self, data):
        self._answer(data)


class Terminal(Console):
    """A console of `rows` by `columns`."""

    def __init__(self, *options, share=None, rows=24, columns=80):
        super().__init__(*options, share=share)
        self.answers = True
        self.screen = Answering(columns, rows, self._answer)
        self._stream = pyte.Stream(self.screen)
        self.take_for("utf-8")

    def take_for(self, encoding):
        """Sets the encoding in which the terminal interprets all further output."""
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def _answer(self, data):
        if self.answers:
            self.type(data)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def resize(self, rows, columns):
        """Changes the size of the screen. As on a serial line, the program is not notified."""
        self.screen.resize(rows, columns)

    def read(self, seconds):
        """Waits at most `seconds` for output, and draws at most 1024 bytes of it on the screen, so that callers see each intermediate state. Returns
        False if no output arrived."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self._stream.feed(self._decoder.decode(os.read(self.master, 1024)))
        return True

    def wait_until(self, holds, seconds=60):
        """Waits until `holds()` returns a true value, and returns that value. A failing assert in `holds` counts as false, since the screen may be
        half drawn."""
        end = time.monotonic() + seconds
        while True:
            try:
                if result := holds():
                    return result
            except AssertionError:
                if time.monotonic() > end:
                    raise
            assert time.monotonic() < end, f"not on the screen:\n{self.text()}"
            self.read(0.5)

    def wait_for(self, pattern, seconds=60):
        """Waits until the screen matches the regular expression `pattern`; returns the match."""
        return self.wait_until(lambda: re.search(pattern, self.text(), re.MULTILINE), seconds)

    def wait_while(self, pattern, seconds=60):
        """Waits until the screen no longer matches the regular expression `pattern`."""
        self.wait_until(lambda: not re.search(pattern, self.text(), re.MULTILINE), seconds)
