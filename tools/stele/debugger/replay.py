"""gdb on a recorded run (recording.py): commands that go to any moment of the run, and back.

QEMU can itself go back in a recorded run, but hangs now and then. Here, going back is going forward in another guest: the run is replayed from its
beginning up to the wanted moment. A replay repeats each instruction, so breakpoints and watchpoints of a replay say what happened before. The moment is
QEMU's number of executed instructions.
"""
import contextlib
import os
import pathlib
import subprocess

import gdb

from stele import debug_sockets
from stele.build import ROOT
from stele.qmp import Qmp, QmpError
from stele.recording import Kept, RecordingError

# Instructions before the present moment in which something is looked for. The first interval that has it ends the search.
_SEARCHED = [100_000, 3_000_000]
_STEPPED = [200, 2_000, 20_000]  # likewise, for what needs a stop at each instruction
_FROM_END = 1000  # instructions: where a run is opened, if nothing else is said
_STACK = 1 << 16  # bytes: stack pointers that differ by more are on different stacks


class Run:
    """A recorded run, and the guest in which it is replayed."""

    def __init__(self, kept, moment):
        self.kept, self.guest, self.qmp = kept, None, None
        self.go(moment)

    def go(self, moment):
        """Replays the run up to a moment."""
        if not 0 <= moment < self.kept.end:
            raise gdb.GdbError(f"moment {moment}: the run has the moments 0 to {self.kept.end - 1}")
        guest = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", str(ROOT / "scripts/guest"), *self.kept.guest_at(moment)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        line = ""
        for line in guest.stderr:
            if line.startswith("guest: stopped at"):
                break
        else:
            raise gdb.GdbError(line.strip() or "the guest could not be started")
        self.end()
        self.guest, sockets = guest, debug_sockets.guests_folder() / str(guest.pid)
        with _silent():
            gdb.execute(f"target remote {debug_sockets.path(sockets, 'gdb')}", to_string=True)
        self.qmp = Qmp(debug_sockets.connect(sockets, "qmp"))

    def end(self):
        """Ends the guest. gdb keeps breakpoints and watchpoints."""
        if not self.guest:
            return
        with contextlib.suppress(gdb.error):  # the guest has ended
            gdb.execute("disconnect", to_string=True)
        self.guest.terminate()
        self.guest.communicate()
        self.guest = None

    def now(self):
        """Returns the present moment."""
        try:
            return self.qmp.execute("query-replay")["icount"]
        except QmpError:
            return self.kept.end

    def back(self, moment):
        """Goes to a moment and shows the place."""
        self.go(moment)
        self.show()

    def show(self):
        gdb.write(f"moment {self.now()}\n")
        gdb.execute("frame")

    def forward(self, begin, end, go_on, note):
        """Replays from `begin` up to `end`, by the command `go_on`. Calls note(moment) at each stop before `end`, also at `begin`."""
        self.go(begin)
        self.qmp.execute("replay-break", icount=end)
        with _silent():
            while (moment := self.now()) < end:
                note(moment)
                gdb.execute(go_on, to_string=True)

    def last_stop(self, end):
        """Returns (moment, points) of the last stop at breakpoints or watchpoints before the moment `end`; None if there is none. `points`: lines about
        them."""
        points = []  # at which the last stop was

        def stopped(event):
            points[:] = map(_point, event.breakpoints) if isinstance(event, gdb.BreakpointEvent) else []
        gdb.events.stop.connect(stopped)
        try:
            for length in [*_SEARCHED, end]:
                begin, stops = max(0, end - length), []
                self.forward(begin, end, "continue", lambda moment, stops=stops: stops.append((moment, list(points))))
                if len(stops) > 1:
                    return stops[-1]
                if begin == 0:
                    return None
        finally:
            gdb.events.stop.disconnect(stopped)

    def last_step(self, end, wanted):
        """Returns the moment that wanted(steps) chooses. `steps`: (moment, pc, sp) of instructions before the moment `end`. If `wanted` returns None, it
        gets more of them."""
        for length in _STEPPED:
            begin, steps = max(0, end - length), []
            self.forward(begin, end, "stepi", lambda moment, steps=steps: steps.append((moment, _register("pc"), _register("sp"))))
            if (moment := wanted(steps)) is not None:
                return moment
        raise gdb.GdbError(f"not within {_STEPPED[-1]} instructions")


def _register(name):
    return int(gdb.parse_and_eval(f"(unsigned long)${name}"))


def _point(point):
    """Returns a line about a breakpoint or watchpoint."""
    what = f"watchpoint {point.number}: {point.expression.removeprefix('-location ')}" if point.expression else f"breakpoint {point.number}: {point.location}"
    return f"{what}\n"


def _line(pc):
    """Returns what two addresses have in common if they belong to one source line."""
    line = gdb.find_pc_line(pc)
    return (line.symtab.filename, line.line) if line.symtab and line.line else pc


def _begin_of_line(steps):
    """Returns the moment at which the source line of the last step began; None if it began before the first step, or if there is none."""
    last = len(steps) - 1
    while last > 0 and _line(steps[last - 1][1]) == _line(steps[-1][1]):
        last -= 1
    return steps[last][0] if last > 0 else None


@contextlib.contextmanager
def _silent():
    """gdb does not say where and why the guest stops. It has no setting for all of this."""
    gdb.flush()
    with open(os.devnull, "wb") as nothing, os.fdopen(os.dup(1), "wb") as output:
        os.dup2(nothing.fileno(), 1)
        try:
            yield
        finally:
            gdb.flush()
            os.dup2(output.fileno(), 1)


@contextlib.contextmanager
def _only(location, condition):
    """Makes a breakpoint, and switches the others off for the time."""
    others = [point for point in gdb.breakpoints() if point.enabled]
    for point in others:
        point.enabled = False
    point = gdb.Breakpoint(location, type=gdb.BP_HARDWARE_BREAKPOINT, internal=True)
    point.condition = condition
    try:
        yield
    finally:
        point.delete()
        for other in others:
            if other.is_valid():
                other.enabled = True


class _Command(gdb.Command):
    """A command on the `run`."""

    def __init__(self, run, name):
        super().__init__(name, gdb.COMMAND_RUNNING)
        self.run = run

    def invoke(self, argument, _from_tty):
        try:
            self.act(self.run.now(), argument.strip())
        except (QmpError, OSError) as error:
            raise gdb.GdbError(f"the replay failed: {error}") from error

    def back(self, end, find):
        """Goes to the moment that find() returns. If it fails, stays at the moment `end`."""
        try:
            moment = find()
        except BaseException:
            if end < self.run.kept.end:
                self.run.go(end)
            raise
        self.run.back(moment)


class Moment(_Command):
    """moment [N | +N | -N]
    Says which moment of the recorded run this is, or goes to another one: a number of instructions since the beginning, or from here.
    """

    names = ("moment",)

    def act(self, now, argument):
        if not argument:
            gdb.write(f"moment {now} of {self.run.kept.end}\n")
            return
        try:
            number = int(argument)
        except ValueError as error:
            raise gdb.GdbError("moment [N | +N | -N]") from error
        self.run.back(now + number if argument[0] in "+-" else number)


class ReverseStepi(_Command):
    """reverse-stepi [N]
    Goes back N instructions (1).
    """

    names = ("reverse-stepi", "rsi")

    def act(self, now, argument):
        number = int(gdb.parse_and_eval(argument)) if argument else 1
        self.run.back(max(0, now - number))


class ReverseStep(_Command):
    """reverse-step
    Goes back to the beginning of the source line that was executed before, also into functions.
    """

    names = ("reverse-step", "rs")

    def act(self, now, _argument):
        self.back(now, lambda: self.run.last_step(now, _begin_of_line))


class ReverseNext(_Command):
    """reverse-next
    Goes back to the beginning of the source line that was executed before, but not into functions that this line or others called.
    """

    names = ("reverse-next", "rn")

    def act(self, now, _argument):
        stack = _register("sp")
        self.back(now, lambda: self.run.last_step(now, lambda steps: _begin_of_line([step for step in steps if 0 <= step[2] - stack < _STACK])))


class ReverseFinish(_Command):
    """reverse-finish
    Goes back to the call of the selected function.
    """

    names = ("reverse-finish",)

    def act(self, now, _argument):
        frame = gdb.selected_frame()
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        block = frame.block()
        while block.superblock and not (block.function and block.superblock.is_static):
            block = block.superblock
        caller = frame.older()
        if not caller or not block.function:
            raise gdb.GdbError("the caller of this function is not known")
        stack = int(caller.read_register("rsp")) - 8  # at the function's first instruction: the word of the return address

        def call():
            if _register("pc") == block.start and _register("sp") == stack:
                return now - 1
            with _only(f"*{block.start:#x}", f"(unsigned long)$rsp == {stack & (1 << 64) - 1:#x}"):
                found = self.run.last_stop(now)
            if not found:
                raise gdb.GdbError("the call was not found")
            return found[0] - 1
        self.back(now, call)


class ReverseContinue(_Command):
    """reverse-continue
    Goes back to the last stop at a breakpoint or watchpoint. For a watchpoint this is the instruction after the one that wrote.
    """

    names = ("reverse-continue", "rc")

    def act(self, now, _argument):
        enabled = [point for point in gdb.breakpoints() if point.enabled]
        if not enabled:
            raise gdb.GdbError("no breakpoint and no watchpoint is enabled")
        for point in enabled:
            if point.temporary:
                raise gdb.GdbError(f"breakpoint {point.number} is temporary, and would end at its first stop: use break, not tbreak")

        def stop():
            found = self.run.last_stop(now)
            if not found:
                raise gdb.GdbError("no breakpoint or watchpoint was met before")
            gdb.write("".join(found[1]))
            return found[0]
        self.back(now, stop)


def open_run(folder, moment):
    """Opens the run that is kept in `folder` at a moment (None: at its end), and makes the commands."""
    try:
        kept = Kept(pathlib.Path(folder))
    except RecordingError as error:
        raise gdb.GdbError(str(error)) from error
    run = Run(kept, int(moment) if moment else kept.end - _FROM_END)
    for command in (Moment, ReverseStepi, ReverseStep, ReverseNext, ReverseFinish, ReverseContinue):
        for name in command.names:
            command(run, name)
    gdb.events.gdb_exiting.connect(lambda _: run.end())
    run.show()
