"""The data of all reports: a Profile of outstanding objects by stack.

Each from_*.py reads one input format into a Profile. Each output format has a module that writes a Profile. So no input module depends on an output
module. The numbers of a difference (Profile.minus) may be negative.
"""
from collections import defaultdict
from dataclasses import dataclass, field, replace


class ReportError(Exception):
    """A report cannot be made, usually because a file is invalid. The message is one line."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A function of a stack. A return address with inlined functions is several frames, innermost first."""

    function: str  # "Name::copy"; "0x401000" if the name is not known
    file: str = ""  # "kern/drivers/dev/tmp.cc", relative to the checkout
    line: int = 0  # 0: not known
    inlined: bool = False  # True if the function is inlined into the next frame's function
    module: str = "kernel"  # "kernel", or the path of a program
    address: int = 0  # return address; 0 if the profile does not have it
    build_id: str = ""  # build id of the module, in hexadecimal


@dataclass(frozen=True, slots=True)
class Key:
    """The attributes that objects must have in common to be counted together."""

    source: str  # name of a cache, of an arena, of a class of references, or of a probe session
    frames: tuple = ()  # frames of the kernel stack without those of the allocator, innermost first; () if no stack was recorded
    user_frames: tuple = ()  # frames of the program's stack at the system call, page fault or probe, innermost first
    process: str = ""  # the task, process or interrupt that allocated: "pid 12 sh", "irq timer"; "" if it is not known
    mark: int = 0  # the trace's mark when the objects were allocated
    age: str = ""  # one of AGES; "" if it is not known


AGES = ("below 1 s", "1 to 10 s", "10 to 100 s", "100 to 1000 s", "1000 s and more")


@dataclass(slots=True)
class Amount:
    """The amounts of one Key. `objects` and `bytes` are outstanding. `all_objects` and `all_bytes` count everything that was ever allocated, and are
    0 if that is not known. All four numbers are estimates if the trace was sampled."""

    objects: int = 0
    bytes: int = 0
    all_objects: int = 0
    all_bytes: int = 0

    def add(self, other, sign=1):
        self.objects += sign * other.objects
        self.bytes += sign * other.bytes
        self.all_objects += sign * other.all_objects
        self.all_bytes += sign * other.all_bytes

    def __bool__(self):
        return bool(self.objects or self.bytes or self.all_objects or self.all_bytes)


@dataclass
class Source:
    """Facts about a whole cache, arena, class of references, or probe session."""

    name: str
    kind: str = ""  # cache, arena, references, probe
    state: str = ""  # running, stopped
    object_size: int = 0
    options: dict = field(default_factory=dict)  # those of the options depth, min, max, pid and sample that were set
    counters: dict = field(default_factory=dict)  # seen, recorded, …


@dataclass
class Profile:
    title: str = ""  # "make leaktest CMD='leakdemo leak 3'", or the file's name
    build_id: str = ""  # build id of the kernel
    seconds: float = 0  # since boot
    amounts: dict = field(default_factory=lambda: defaultdict(Amount))  # {Key: Amount}
    sources: dict = field(default_factory=dict)  # {name: Source}
    incomplete: list = field(default_factory=list)  # reasons why the profile is incomplete, one line each; empty: it is complete
    holders: dict = field(default_factory=lambda: defaultdict(list))  # {Key: ["reference to 0x… taken by …", …]}: references that were not put

    def add(self, key, amount):
        self.amounts[key].add(amount)

    def total(self):
        """Returns the sum of all Amounts."""
        total = Amount()
        for amount in self.amounts.values():
            total.add(amount)
        return total

    def minus(self, base):
        """Returns this Profile minus `base`. Before the subtraction, Amounts of Keys that differ only in return addresses, marks, ages or processes
        are added up."""
        result = replace(self, amounts=defaultdict(Amount), holders=self.holders)
        for profile, sign in ((self, 1), (base, -1)):
            for key, amount in profile.amounts.items():
                result.amounts[comparable(key)].add(amount, sign)
        result.amounts = defaultdict(Amount, {key: amount for key, amount in result.amounts.items() if amount})
        return result


def comparable(key):
    """Returns the Key without process, mark, age and return addresses, which differ between boots and guests."""
    return replace(key, process="", mark=0, age="", frames=tuple(replace(frame, address=0) for frame in key.frames),
                   user_frames=tuple(replace(frame, address=0) for frame in key.user_frames))
