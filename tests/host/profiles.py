"""Example profiles for the tests of scripts/report."""
from stele.report.profile import AGES, Amount, Frame, Key, Profile, Source

BUILD, PROGRAM = "ab" * 20, "cd" * 20
ALLOC = (Frame("Name::copy", "kern/src/name.cc", 12, True, "kernel", 0xFFFF800000100010, BUILD),
         Frame("Tmp::create", "kern/drivers/dev/tmp.cc", 40, False, "kernel", 0xFFFF800000100010, BUILD))
SYSCALL = (Frame("sys_open", "kern/src/sys.cc", 7, False, "kernel", 0xFFFF800000100020, BUILD),)
MAIN = (Frame("main", "user/bin/leakdemo.cc", 30, False, "/bin/leakdemo", 0x401005, PROGRAM),)
LEAK = Key("kmalloc_32", ALLOC + SYSCALL, MAIN, "pid 12 leakdemo", 3, AGES[2])


def profile():
    """A profile that has an example of every feature."""
    made = Profile("make leaktest CMD='echo \u00e4'", BUILD, 12.000000345)
    made.add(LEAK, Amount(10, 320, 500, 16000))
    made.add(Key("kmalloc_32", ALLOC + SYSCALL, MAIN, "pid 13 sh", 1, AGES[0]), Amount(1, 32, 2, 64))
    made.add(Key("name", SYSCALL, (), "irq timer"), Amount(3, 4096))
    made.add(Key("page arena"), Amount(1, 8192, 1, 8192))  # a stack that was not recorded
    made.add(Key("inode", (Frame("0xffff800000200000", address=0xFFFF800000200000, build_id=BUILD),)), Amount(-2, -128))
    made.holders[LEAK] = ["reference to 0xffff800000004000 taken by Tmp::walk kern/tmp.cc:9: planted+0x0", "another"]
    made.sources["kmalloc_32"] = Source("kmalloc_32", "cache", "stopped", 32, {"depth": 32, "sample": 4096}, {"seen": 510, "recorded": 500})
    made.sources["inode"] = Source("inode", "references", "running")
    made.incomplete += ["kmalloc_32: 10 allocations were not recorded", "two\nlines"]
    return made


def guest(number, stacks=20, common=None, build=BUILD):
    """Returns the profile of one guest among many. The profile has `stacks` stacks that no other guest
    has. Each of these stacks has 50,000 bytes. If `common` is not None, the profile also has the
    stack of LEAK with the Amount `common`."""
    made = Profile(f"guest {number}", build, 10 + number)
    for index in range(stacks):
        frames = tuple(Frame(f"Guest{number}::stack{index}_{depth}", "kern/src/own.cc", depth, False, "kernel",
                             0xFFFF800000300000 + 16 * depth, build) for depth in range(8))
        made.add(Key("inode", frames, (), f"pid {number} sh", number % 3, AGES[0]), Amount(1, 50_000))
    if common:
        made.add(Key(LEAK.source, LEAK.frames, LEAK.user_frames, f"pid {100 + number} leakdemo", number % 7, AGES[4]), common)
    made.sources["inode"] = Source("inode", "cache", "running", 64, {"depth": 32}, {"recorded": stacks})
    made.incomplete.append(f"inode: {number + 1} stacks were not recorded")
    return made
