#!/usr/bin/python3
"""Makes pictures of kmemtop on a terminal for the tutorial: build/report/screens/kmemtop.png and kmemtop-stacks.png.

Runs kmemtop in a guest in which leakdemo leaks. `make pictures` runs this program; the guest's image must have been built.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import guest
from stele.terminal_picture import draw
from terminal import Terminal

SCREENS = guest.BUILD / "report/screens"
REFRESHES = 12  # kmemtop's refreshes before the picture, so that the trends have values


def main():
    with Terminal() as terminal:
        terminal.wait_for(r"^#")
        terminal.type("(while :; do leakdemo leak 3; usleep 150000; done) & (while :; do ls -R / | sort > /tmp/x; rm /tmp/x; done) > /tmp/err 2>&1 &\n")
        terminal.screen.reset()
        # With TERM=xterm, programs would use the control sequence REP, which the emulator pyte does not know.
        terminal.type("TERM=screen-256color kmemtop -d 0.4\n")
        terminal.wait_until(lambda: sum(line.startswith("leaky ") and sum(c in "▁▂▃▄▅▆▇█" for c in line) >= REFRESHES for line in terminal.lines()))
        terminal.type("t")
        terminal.wait_for("contexts pid")
        terminal.wait_for(r"trace running  [4-9]\d live")
        terminal.wait_until(lambda: "q quit" in terminal.lines()[-1])
        draw(terminal.screen, SCREENS / "kmemtop-stacks.png")
        terminal.type("\x1b")
        terminal.wait_for(r"^leaky .* traced$")
        terminal.wait_until(lambda: terminal.lines()[-1].startswith(" t trace"))
        draw(terminal.screen, SCREENS / "kmemtop.png")
        terminal.type("q")


if __name__ == "__main__":
    main()
