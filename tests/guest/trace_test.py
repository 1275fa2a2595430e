"""The tracer as a person uses it: #mem and #debug from the shell."""
import pathlib
import subprocess
import tempfile
import unittest

from guest import BUILD, ctl_in, dumps_in, guest, live_counts
from stele.source_lines import build_id
from stele.tracedump import Symbols, TraceDump

LEAK = ('echo start > #mem/kmemtrace/{cache}; echo "leak {cache} {n} {options}" > #debug/alloc; '
        'echo stop > #mem/kmemtrace/{cache}; cat #mem/kmemtrace/{cache}; '
        'echo "free {cache} {n}" > #debug/alloc; cat #mem/kmemtrace/{cache}')


class Leaks(unittest.TestCase):
    def check(self, cache, size, n, options, context):
        result = guest(LEAK.format(cache=cache, n=n, options=options))
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        held, freed = dumps_in(result.stdout)
        for dump in (held, freed):
            self.assertEqual(dump.broken_identities(), [], result)
            self.assertEqual(dump.lost(), {}, result)
        [group] = held.groups
        self.assertEqual((held.counters["live"], held.counters["bytes"]), (n, n * size))
        self.assertEqual((group.objects, group.bytes), (n, n * size))
        names = [frame.partition("+")[0] for frame in group.frames]
        self.assertEqual(names[:8], ["leak_at_depth"] * 8, result)
        self.assertEqual(names.count("leak_at_depth"), 8)
        self.assertIn("debug_interrupt" if "irq" in options else "debug_alloc_write", names)
        self.assertTrue(all(frame.endswith(" [kernel]") for frame in group.frames), result)
        self.assertRegex(group.summary, context)
        # What was interrupted is not to blame.
        self.assertEqual([stack.objects for stack in group.user_stacks], [] if "irq" in options else [n], result)
        self.assertEqual((freed.counters["live"], freed.groups), (0, []))
        self.assertEqual(freed.counters["freed"], n)
        return names

    def test_100_objects(self):
        self.check("debug_64", 64, 100, "depth=8", r"contexts pid \d+ sh$")

    def test_100_objects_from_an_interrupt(self):
        names = self.check("debug_64", 64, 100, "depth=8 irq", r"contexts irq \w+$")
        self.assertNotIn("debug_alloc_write", names)  # what was interrupted is not to blame

    def test_30000_objects(self):
        self.check("debug_64", 64, 30000, "depth=8", r"contexts pid \d+ sh$")

    def test_30000_objects_from_an_interrupt(self):
        self.check("debug_64", 64, 30000, "depth=8 irq", r"contexts irq \w+$")

    def test_cache_with_bufctls(self):
        self.check("debug_1024", 1024, 100, "depth=8", r"contexts pid \d+ sh$")

    def test_atomic(self):
        self.check("debug_64", 64, 100, "depth=8 atomic", r"contexts pid \d+ sh$")

    def test_live_count(self):
        result = guest('cat #mem/kmemstat; echo "leak debug_64 100" > #debug/alloc; cat #mem/kmemstat; '
                       'echo "free debug_64 100" > #debug/alloc; cat #mem/kmemstat')
        tables = live_counts(result.stdout)
        self.assertEqual([table["debug_64"] for table in tables], [0, 100, 0], result)

    def test_live_count_of_objects_in_magazines(self):
        result = guest('echo "churn debug_64 1000" > #debug/alloc; grep debug_64 #mem/kmemstat')
        words = result.stdout.split()
        self.assertEqual(words[5:8], ["0", "1000", "1000"], result)


class Control(unittest.TestCase):
    """One boot for all: the commands and what they say."""

    @classmethod
    def setUpClass(cls):
        cls.result = guest("""
t='#mem/kmemtrace/debug_64'
section() { echo "== $1"; }
section off; cat "$t"
section stop_when_off; echo stop > "$t" && echo succeeded
section twice; echo start > "$t"; echo start > "$t" && echo succeeded
section other_options; { echo 'start depth=4' > "$t" || echo refused; } 2>&1
section marks
echo 'leak debug_64 3' > #debug/alloc; echo mark > "$t"
echo 'leak debug_64 4' > #debug/alloc; echo mark > "$t"; echo mark > "$t"
echo 'leak debug_64 5' > #debug/alloc
cat "$t"
section untraced; echo stop > "$t"; echo 'leak debug_64 7' > #debug/alloc; cat "$t"
section goes_on; echo start > "$t"; echo 'leak debug_64 1' > #debug/alloc; cat "$t"
section ctl; cat #mem/kmemtrace/ctl
section reset_while_running; echo reset > "$t"; echo 'leak debug_64 2' > #debug/alloc; cat "$t"
section reset; printf 'stop\\nreset\\n' > "$t"; cat "$t"
section notrace; { echo start > #mem/kmemtrace/kmem_slab || echo refused; } 2>&1; cat #mem/kmemtrace/kmem_slab
section all; echo start > #mem/kmemtrace/ctl; echo 'leak debug_1024 6' > #debug/alloc; echo settle > #mem/kmemtrace/ctl
echo stop > #mem/kmemtrace/ctl; cat #mem/kmemtrace/debug_1024
section none; echo reset > #mem/kmemtrace/ctl; cat #mem/kmemtrace/ctl
""")
        cls.section = {}
        for part in cls.result.stdout.split("== ")[1:]:
            name, _, body = part.partition("\n")
            cls.section[name] = body

    def dump(self, section):
        [dump] = dumps_in(self.section[section])
        self.assertEqual(dump.broken_identities(), [], self.section[section])
        return dump

    def test_runs_through(self):
        self.assertEqual((self.result.status, self.result.stderr), (0, ""), self.result)

    def test_what_is_not_traced_says_so(self):
        self.assertIn("off", self.section["off"])
        self.assertIn("start", self.section["off"])

    def test_stop_when_off_succeeds(self):
        self.assertEqual(self.section["stop_when_off"], "succeeded\n")

    def test_start_twice(self):
        self.assertEqual(self.section["twice"], "succeeded\n")

    def test_start_with_other_options_is_busy(self):
        self.assertRegex(self.section["other_options"], r"busy: .*depth=32: stop it first\nrefused")

    def test_marks(self):
        dump = self.dump("marks")
        self.assertEqual(dump.header["mark"], "3")
        objects = {0: 3, 1: 4, 3: 5}
        self.assertEqual(dump.counters["live"], sum(objects.values()))
        for mark, number in objects.items():
            self.assertEqual(self.section["marks"].count(f" mark {mark} cpu"), number)
        self.assertEqual(set().union(*(group.marks for group in dump.groups)), {0, 1, 3})

    def test_what_is_allocated_after_stop_is_untracked(self):
        dump = self.dump("untraced")
        self.assertEqual((dump.header["state"], dump.counters["seen"], dump.counters["untracked"]), ("stopped", 12, 7))

    def test_start_after_stop_keeps_what_there_is(self):
        dump = self.dump("goes_on")
        self.assertEqual((dump.counters["live"], dump.counters["untracked"]), (13, 7))

    def test_ctl_shows_what_is_traced(self):
        memory, [trace] = ctl_in(self.section["ctl"])
        self.assertEqual((trace.name, trace.header["state"], trace.counters["live"]), ("debug_64", "running", 13))
        self.assertGreater(memory["used"], 0)
        self.assertGreater(memory["limit"], memory["used"])

    def test_reset_while_running_goes_on(self):
        dump = self.dump("reset_while_running")
        self.assertEqual((dump.header["state"], dump.counters["live"]), ("running", 2))

    def test_reset_ends_the_trace(self):
        self.assertIn("off", self.section["reset"])
        self.assertEqual(dumps_in(self.section["reset"]), [])

    def test_a_cache_that_is_not_to_be_traced_says_why(self):
        self.assertRegex(self.section["notrace"], r"kmem_slab cannot be traced: .*\nrefused")

    def test_all_at_once(self):
        dump = self.dump("all")
        self.assertEqual(dump.counters["live"], 6)
        memory, traces = ctl_in(self.section["none"])
        self.assertEqual((memory["used"], traces), (0, []))


class Filters(unittest.TestCase):
    """One boot for all."""

    @classmethod
    def setUpClass(cls):
        cls.result = guest("""
ctl='#mem/kmemtrace/ctl'
t='#mem/kmemtrace/debug_64'
u='#mem/kmemtrace/debug_1024'
section() { echo "== $1"; }
leak() { echo "leak debug_64 $1" > #debug/alloc; echo "leak debug_1024 $1" > #debug/alloc; }
echo 'start min=65 max=4K' > "$ctl"; leak 100; echo stop > "$ctl"
section ctl; grep -e '^limit' -e ' debug_' "$ctl"
section all; cat "$t" "$u"
echo reset > "$ctl"; echo 'free debug_64 100' > #debug/alloc; echo 'free debug_1024 100' > #debug/alloc
echo 'start max=64' > "$t"; echo 'start max=1023 depth=4' > "$u"; leak 5
section edge; cat "$t" "$u"
section busy; { echo 'start min=1' > "$u" || echo refused; echo start > "$ctl" || echo refused; } 2>&1
section freed; echo 'free debug_64 5' > #debug/alloc; echo 'free debug_1024 5' > #debug/alloc; cat "$t" "$u"
printf 'stop\nreset\n' > "$ctl"
section mine; echo "pid $$"; echo "start pid=$$" > "$t"
echo 'leak debug_64 30' > #debug/alloc; echo 'leak debug_64 9 irq' > #debug/alloc; sh -c 'echo "leak debug_64 20" > #debug/alloc; :'
cat "$t"
printf 'stop\nreset\n' > "$t"
section others; sh -c 'echo "pid $$"; echo "start pid=$$" > "#mem/kmemtrace/debug_64"; echo "leak debug_64 7" > #debug/alloc; :'
echo 'leak debug_64 4' > #debug/alloc; cat "$t"
printf 'stop\nreset\n' > "$t"
section errors; for options in min=x max=-1 'min=2 max=1' pid=0 pid=x size=5; do echo "start $options" > "$t" || echo refused; done 2>&1
cat "$t"
""", "--timeout", "120")
        cls.section = {}
        for part in cls.result.stdout.split("== ")[1:]:
            name, _, body = part.partition("\n")
            cls.section[name] = body

    def counts(self, section):
        """[(recorded, filtered, live)] of the dumps of a section."""
        dumps = dumps_in(self.section[section])
        for dump in dumps:
            self.assertEqual((dump.broken_identities(), dump.lost()), ([], {}), self.section[section])
            self.assertEqual(dump.counters["seen"], dump.counters["recorded"] + dump.counters["filtered"])
        return [(dump.counters["recorded"], dump.counters["filtered"], dump.counters["live"]) for dump in dumps]

    def test_runs_through(self):
        self.assertEqual((self.result.status, self.result.stderr), (0, ""), self.result)

    def test_sizes_on_all_caches(self):
        self.assertEqual(self.counts("all"), [(0, 100, 0), (100, 0, 100)])
        dumps = dumps_in(self.section["all"])
        self.assertEqual([(dump.header["min"], dump.header["max"]) for dump in dumps], [("65", "4096")] * 2)
        self.assertEqual([dump.counters["untracked"] for dump in dumps], [100, 0])

    def test_ctl_says_the_filters(self):
        _, traces = ctl_in(self.section["ctl"])
        traces = {trace.name: trace for trace in traces}
        self.assertEqual(traces["debug_64"].counters["filtered"], 100)
        self.assertEqual(traces["debug_1024"].header["max"], "4096")

    def test_edges(self):
        self.assertEqual(self.counts("edge"), [(5, 0, 5), (0, 5, 0)])
        self.assertNotIn("min", dumps_in(self.section["edge"])[0].header)

    def test_other_filters_are_busy(self):
        self.assertRegex(self.section["busy"], r"debug_1024 is being traced with depth=4 max=1023: stop it first\nrefused\n.*busy.*\nrefused\n$")

    def test_frees(self):
        self.assertEqual(self.counts("freed"), [(5, 0, 0), (0, 5, 0)])
        self.assertEqual([dump.counters["unmatched"] for dump in dumps_in(self.section["freed"])], [0, 5])

    def test_one_process_and_no_interrupt(self):
        self.assertEqual(self.counts("mine"), [(30, 29, 30)])
        self.assertEqual(self.counts("others"), [(7, 4, 7)])
        for section in ("mine", "others"):
            pid = self.section[section].split()[1]
            [dump] = dumps_in(self.section[section])
            self.assertEqual(dump.header["pid"], pid)
            self.assertRegex(dump.groups[0].summary, rf"contexts pid {pid} sh$")

    def test_errors(self):
        lines = self.section["errors"].splitlines()
        self.assertEqual(lines.count("refused"), 6)
        for text in ('"min=x": start takes min=N', '"max=-1": start takes', "min is at most max", '"pid=0": start takes pid=N, N from 1',
                     '"size=5": start takes depth=N, sample=N, min=N, max=N and pid=N', "state off"):
            self.assertIn(text, self.section["errors"])


class Sampling(unittest.TestCase):
    def test_estimates(self):
        """100,000 objects of 64 bytes with one sampling point every 4 KiB: 1,550 records, give or take forty."""
        result = guest("""
t='#mem/kmemtrace/debug_64'
echo start sample=4K > "$t"
echo 'leak debug_64 100000' > #debug/alloc
echo "== held"; cat "$t"
echo 'free debug_64 75000' > #debug/alloc
echo "== ctl"; cat '#mem/kmemtrace/ctl'
echo stop > "$t"; echo start sample=8K > "$t" || echo refused; printf 'reset\nstart\nstop\n' > "$t"
echo "== off"; cat "$t"
echo 'free debug_64 25000' > #debug/alloc; echo reset > "$t"
""")
        self.assertEqual(result.status, 0, result)
        section = dict(part.split("\n", 1) for part in result.stdout.split("== ")[1:])
        [held] = dumps_in(section["held"])
        self.assertEqual((held.header["sample"], held.counters["seen"]), ("4096", 100000))
        self.assertEqual((held.lost(), held.broken_identities()), ({}, []))
        self.assertEqual(held.counters["untracked"], held.counters["filtered"])
        self.assertAlmostEqual(held.counters["recorded"], 1550, delta=250)
        self.assertAlmostEqual(held.counters["estimated_bytes"], 6400000, delta=1000000)
        self.assertAlmostEqual(held.counters["estimated_objects"], 100000, delta=16000)
        [group] = held.groups
        self.assertEqual(group.estimated, (held.counters["estimated_bytes"], held.counters["estimated_objects"]))
        [trace] = ctl_in(section["ctl"])[1]
        self.assertAlmostEqual(trace.counters["estimated_objects"], 25000, delta=8000)
        self.assertIn("debug_64 has records with another sampling rate: reset it first", result.stderr)
        self.assertIn("refused", section["ctl"])
        [off] = dumps_in(section["off"])
        self.assertNotIn("sample", off.header)


def user_symbols(program):
    """Address ranges of the functions of a user program that was built: [(start, end, name)]."""
    lines = subprocess.run(["nm", "-S", str(BUILD / "user/bin" / program)], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in lines.splitlines()]
    return [(int(w[0], 16), int(w[0], 16) + int(w[1], 16), w[3]) for w in words if len(w) == 4 and w[2] in "tT"]


class UserStacks(unittest.TestCase):
    def names(self, frames, program):
        """The functions that the frames of a program's user stack lie in."""
        symbols = user_symbols(program)
        names = []
        for frame in frames:
            address, path = frame.split()
            self.assertEqual(path, f"[/bin/{program}]")
            # The C library has some functions under several names: the shortest is the one that programs use.
            names += sorted((name for start, end, name in symbols if start <= int(address, 16) - 1 < end), key=len)[:1]
        return names

    def test_a_leak_is_traced_to_the_program(self):
        result = guest("echo start > #mem/kmemtrace/leaky; leakdemo leak 3; leakdemo leak 4; echo stop > #mem/kmemtrace/leaky; "
                       "cat #mem/kmemtrace/leaky")
        [dump] = dumps_in(result.stdout)
        self.assertEqual((dump.counters["live"], dump.lost(), dump.broken_identities()), (7, {}, []), result)
        [group] = dump.groups
        self.assertRegex(group.summary, r"contexts pid \d+ leakdemo, pid \d+ leakdemo$")
        [stack] = group.user_stacks  # of both processes
        self.assertRegex(stack.owner, r"^pid \d+ leakdemo and 1 more$")
        self.assertEqual((stack.objects, stack.bytes), (7, group.bytes))
        self.assertEqual(stack.build_id, build_id(BUILD / "user/bin/leakdemo"))
        self.assertEqual(self.names(stack.frames, "leakdemo"), ["open", "use", "main", "__stele_start", "_start"], result)

    def test_children_and_their_programs_are_told_apart(self):
        result = guest("echo start > #mem/kmemtrace/debug_64; (echo 'leak debug_64 1' > #debug/alloc); "
                       "echo 'leak debug_64 1' > #debug/alloc; echo 'leak debug_64 1' | dd of='#debug/alloc' 2> /dev/null; "
                       "cat #mem/kmemtrace/debug_64")
        [dump] = dumps_in(result.stdout)
        stacks = [stack for group in dump.groups for stack in group.user_stacks]
        self.assertEqual(sum(stack.objects for stack in stacks), 3, result)
        [dd] = [stack for stack in stacks if stack.owner.endswith(" dd")]
        self.assertTrue(all(frame.endswith(" [/bin/dd]") for frame in dd.frames), result)
        self.assertEqual(dd.build_id, build_id(BUILD / "user/bin/busybox"))
        shells = [stack for stack in stacks if stack is not dd]
        self.assertEqual({stack.build_id for stack in shells}, {build_id(BUILD / "user/bin/dash")}, result)
        # The subshell is another process; where it began to be one shows in its stack.
        self.assertEqual({name for stack in shells for name in self.names([f.replace("/bin/sh", "/bin/dash") for f in stack.frames], "dash")}
                         & {"main", "_start"}, {"main", "_start"})

    def test_a_page_that_a_fault_brought_is_traced_to_the_program(self):
        """By the binary dump, which has all user stacks of a group."""
        with tempfile.TemporaryDirectory() as folder:
            result = guest("echo start > #mem/kmemtrace/page; sleep 100 & sleep 0.5; cat #mem/tracedump > /host/dump; kill $!", "--share", folder)
            dump = TraceDump.load(pathlib.Path(folder) / "dump")
        source, symbols = dump.source("page"), Symbols(BUILD / "stele.elf")
        counters = source.counters
        self.assertEqual((counters["stacks_lost"], counters["contexts_lost"], source.broken_identities()), (0, 0, []), result)
        contexts = {record.context for record in source.records
                    if any(symbols.frame(frame).startswith("page_fault+") for frame in dump.stacks[record.stack].frames)}
        stacks = [dump.stacks[dump.contexts[context].user_stack] for context in contexts if dump.contexts[context].name == "sleep"]
        names = [self.names([f"{frame:#x} [/bin/busybox]" for frame in stack.frames], "busybox") for stack in stacks]
        self.assertTrue([chain for chain in names if chain[-1:] == ["_start"] and "main" in chain], (names, result))

    def test_the_program_is_the_file_that_runs(self):
        """Of a script its interpreter; a build id that is broken or missing keeps no program from running."""
        notes = subprocess.run(["readelf", "-lW", str(BUILD / "user/bin/leakdemo")], capture_output=True, text=True, check=True).stdout
        offset = next(int(line.split()[1], 16) for line in notes.splitlines() if line.split()[:1] == ["NOTE"])
        result = guest(f"""
echo start > #mem/kmemtrace/leaky
printf '#!/bin/sh\nleakdemo leak 1\n: < "#debug/leaky/leak"\n' > /tmp/script; chmod +x /tmp/script; /tmp/script
for size in '\\377\\377\\377\\377' '\\003\\0\\0\\0' '\\377\\377\\377\\177'; do
  cp /bin/leakdemo /tmp/demo; printf $size | dd of=/tmp/demo bs=1 seek={offset} conv=notrunc 2> /dev/null; /tmp/demo leak 1
done
cat #mem/kmemtrace/leaky""")
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        [dump] = dumps_in(result.stdout)
        [group] = dump.groups
        found = {stack.owner.split()[2]: stack for stack in group.user_stacks}
        self.assertEqual(sorted((name, stack.objects) for name, stack in found.items()), [("demo", 3), ("leakdemo", 1), ("script", 1)], result)
        self.assertEqual((found["script"].build_id, found["demo"].build_id), (build_id(BUILD / "user/bin/dash"), ""))
        self.assertEqual(self.names(found["leakdemo"].frames, "leakdemo")[-1], "_start")
        for name, path in (("script", "/bin/sh"), ("demo", "/tmp/demo"), ("leakdemo", "/bin/leakdemo")):
            self.assertEqual({frame.split()[1] for frame in found[name].frames}, {f"[{path}]"})

    def test_broken_stacks_do_no_harm(self):
        result = guest("echo start > #mem/kmemtrace/debug_64; proctest frames; echo stop > #mem/kmemtrace/debug_64; "
                       "cat #mem/kmemtrace/debug_64")
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        number, _, text = result.stdout.partition("\n")
        [dump] = dumps_in(text)
        self.assertEqual((dump.counters["live"], dump.lost(), dump.broken_identities()), (int(number), {}, []), result)
        [group] = dump.groups
        frames = {}
        for stack in group.user_stacks:
            self.assertEqual(self.names(stack.frames[:1], "proctest"), ["call_with_frame"], result)
            callers = tuple(int(frame.split()[0], 16) for frame in stack.frames[1:])
            self.assertNotIn(callers, frames)
            frames[callers] = stack.objects
        chain = tuple(range(0x1000, 0x100F))
        self.assertEqual(frames, {(): int(number) - 9, chain: 4, chain[:-1]: 1, (0x2000,): 1, (0x3000, 0x3001): 1, (0x4000,): 1,
                                  (0x4001,): 1}, result)
        # Three of the chain, made by one system call, had more callers.
        self.assertEqual(dump.counters["truncated"], 3, result)


class Limit(unittest.TestCase):
    def test_stacks_and_contexts_that_do_not_fit_are_counted(self):
        """All trace memory is full of records; freed ones make room for records, but not for stacks and contexts."""
        result = guest("""
t='#mem/kmemtrace/debug_64'
printf 'limit 1M\n' > '#mem/kmemtrace/ctl'; echo start depth=64 > "$t"
echo 'leak debug_64 1' > #debug/alloc
echo 'leak debug_64 100000' > #debug/alloc
echo 'free debug_64 2000' > #debug/alloc
echo "== full"; cat "$t"
i=56; while [ $i -gt 1 ]; do echo "leak debug_64 1 depth=$i" > #debug/alloc; i=$((i - 1)); done
echo "== stacks"; cat "$t"
echo 'leak debug_64 1' | dd of='#debug/alloc' 2> /dev/null
echo "== user stack"; cat "$t"
i=0; while [ $i -lt 60 ]; do i=$((i + 1)); (echo 'leak debug_64 1' > #debug/alloc); done
echo "== contexts"; cat "$t"
echo 'free debug_64 98117' > #debug/alloc
echo "== freed"; cat "$t"
printf 'stop\nreset\n' > "$t"; cat '#mem/kmemtrace/ctl'
""", "--timeout", "120")
        self.assertEqual((result.status, result.stderr), (0, ""), result.stderr)
        full, stacks, user_stack, contexts, freed = [dumps_in(part)[0] for part in result.stdout.split("== ")[1:]]
        for dump in (full, stacks, user_stack, contexts, freed):
            self.assertEqual(dump.broken_identities(), [])
        self.assertEqual((full.counters["stacks_lost"], full.counters["contexts_lost"]), (0, 0))
        self.assertGreater(full.counters["dropped"], 10000)
        lost = stacks.counters["stacks_lost"]
        self.assertGreater(lost, 10)
        self.assertEqual([group.objects for group in stacks.groups if group.frames == ["the stack was not recorded"]], [lost])
        # The kernel's stack is an old one; only that in the new program is lost, and who it was is still known.
        self.assertEqual((user_stack.counters["stacks_lost"], user_stack.counters["contexts_lost"]), (lost + 1, 0))
        self.assertRegex("\n".join(group.summary for group in user_stack.groups), r"(?m)contexts .*pid \d+ dd$")
        self.assertFalse([stack for group in user_stack.groups for stack in group.user_stacks if stack.owner.endswith(" dd")])
        self.assertGreater(contexts.counters["contexts_lost"], 10)
        self.assertEqual(contexts.counters["dropped"], full.counters["dropped"])
        self.assertEqual(freed.counters["live"], 0)
        self.assertEqual(ctl_in(result.stdout)[0]["used"], 0)

    def test_100000_leaks_in_64K(self):
        """Nothing is lost silently, the system goes on, and all trace memory is back in the end."""
        result = guest("""
ctl='#mem/kmemtrace/ctl'
t='#mem/kmemtrace/debug_64'
section() { echo "== $1"; }
section before; cat "$ctl"
echo 'limit 64K' > "$ctl"; echo start > "$t"
echo 'leak debug_64 100000' > #debug/alloc
section full; cat "$ctl"
section filtered; printf 'stop\nstart min=100\n' > "$t"; echo 'leak debug_64 50' > #debug/alloc; cat "$t"
section healthy; ls /bin | head -n 1000 | wc -l; (echo subshell)
section freed; echo 'free debug_64 100050' > #debug/alloc; cat "$t"
section after; printf 'stop\nreset\n' > "$t"; cat "$ctl"
section larger; printf 'limit 4M\nstart\n' > "$ctl"; printf 'stop\nreset\n' > "$ctl"; cat "$ctl"
section errors; for limit in '' 0 4095 x 1M1 2000G '1M 2M'; do echo "limit $limit" > "$ctl" || echo refused; done 2>&1
echo 'limit 1M' > "$t" || echo refused
cat "$ctl"
""", "--timeout", "120")
        self.assertEqual(result.status, 0, result)
        section = {}
        for part in result.stdout.split("== ")[1:]:
            name, _, section[name] = part.partition("\n")
        memory, traces = ctl_in(section["before"])
        self.assertEqual((memory["used"], traces), (0, []), result)
        memory, [trace] = ctl_in(section["full"])
        self.assertEqual(memory["limit"], 65536)
        self.assertLessEqual(memory["used"], 65536)
        counters = trace.counters
        self.assertEqual((counters["seen"], counters["filtered"]), (100000, 0), result)
        self.assertEqual(counters["seen"], counters["recorded"] + counters["dropped"])
        self.assertGreater(counters["recorded"], 100)
        self.assertGreater(counters["dropped"], 90000)
        self.assertEqual(counters["untracked"], counters["dropped"])
        [dump] = dumps_in(section["filtered"])
        self.assertEqual(dump.broken_identities(), [])
        self.assertEqual((dump.counters["seen"], dump.counters["filtered"]), (100050, 50))
        count, word = section["healthy"].split()
        self.assertGreater(int(count), 5)
        self.assertEqual(word, "subshell")
        [dump] = dumps_in(section["freed"])
        self.assertEqual(dump.broken_identities(), [])
        self.assertEqual((dump.counters["live"], dump.counters["freed"], dump.counters["unmatched"]),
                         (0, counters["recorded"], counters["dropped"] + 50))
        self.assertEqual(ctl_in(section["after"]), ({"limit": 65536, "used": 0, "stacks": 0, "contexts": 0}, []))
        self.assertEqual(ctl_in(section["larger"]), ({"limit": 4 << 20, "used": 0, "stacks": 0, "contexts": 0}, []))
        self.assertEqual(section["errors"].count("refused"), 8, result)
        self.assertEqual(section["errors"].count("limit takes BYTES from 4096 to 1024G"), 6, result)
        self.assertEqual(ctl_in(section["errors"])[0]["limit"], 4 << 20)


class EveryCache(unittest.TestCase):
    def test_start_stop_and_reset_under_load(self):
        """Traces go on and off on all caches, one after the other and all at once, while programs run. Then all is as it was."""
        result = guest("""
settled() { echo settle > '#mem/kmemtrace/ctl'; cat #mem/kmemstat; }
: > /tmp/load; (:) & wait; rm /tmp/load
settled
load() { while [ -e /tmp/load ]; do ls / | cat > /tmp/out.$1; echo "churn debug_64 100" > #debug/alloc; done; }
: > /tmp/load
load 1 & load 2 & load 3 &
ctl='#mem/kmemtrace/ctl'
round=0
while [ $round -lt 2 ]; do
  for t in '#mem/kmemtrace'/*; do
    [ "$t" = "$ctl" ] || { echo start > "$t" && echo mark > "$t"; } 2>/dev/null
  done
  for t in '#mem/kmemtrace'/*; do
    [ "$t" = "$ctl" ] || { cat "$t" > /dev/null; printf 'stop\\nreset\\n' > "$t"; } 2>/dev/null
  done
  round=$((round + 1))
done
round=0
while [ $round -lt 10 ]; do
  echo start > "$ctl"; echo mark > "$ctl"; echo stop > "$ctl"; echo reset > "$ctl"
  round=$((round + 1))
done
rm /tmp/load
wait
rm /tmp/out.*
grep kmemtrace "$ctl"
settled
""", "--timeout", "300")
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        self.assertNotIn("kmemtrace", result.stdout)
        before, after = live_counts(result.stdout)
        # The allocator's own, and the pages that caches are made of, follow what is cached, not what is in use.
        changed = {cache: (before[cache], after[cache]) for cache in before
                   if before[cache] != after[cache] and not cache.startswith(("kmem_", "page", "base", "trace", "kernel_virtual"))}
        self.assertEqual(changed, {})
