"""A person at a terminal with a known screen: the guest's console, emulated by pyte."""
import codecs
import os
import re
import select
import time

import pyte

from console import Console


class Answering(pyte.Screen):
    """A screen that answers with its cursor's position, as terminals do."""

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
        """The encoding of bytes from now on."""
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def _answer(self, data):
        if self.answers:
            self.type(data)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def resize(self, rows, columns):
        """As by dragging a window's corner: the program is not told."""
        self.screen.resize(rows, columns)

    def read(self, seconds):
        """Shows part of the output that comes within that time, little enough that no picture is
        missed; returns whether any came."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self._stream.feed(self._decoder.decode(os.read(self.master, 1024)))
        return True

    def wait_until(self, holds, seconds=60):
        """Waits until `holds()` is true of the screen, which may be half drawn, and returns its
        result. It may also assert."""
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
        """Waits until the screen does not show it any more."""
        self.wait_until(lambda: not re.search(pattern, self.text(), re.MULTILINE), seconds)
