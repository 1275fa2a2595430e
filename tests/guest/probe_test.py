"""#probe as a person uses it: sessions, counts, events and outstanding objects, from the shell."""
import pathlib
import re
import tempfile
import unittest

from guest import ctl_in, guest
from probed import Counts, Program
from stele.tracedump import TraceDump

ENDS = '\nls "#probe"; cat #mem/kmemtrace/ctl'


class ProbeTest(unittest.TestCase):
    def run_guest(self, script, *options, errors="", status=0):
        result = guest(script, *options)
        self.assertEqual((result.status, result.stderr), (status, errors), result)
        return result.stdout

    def check_nothing_left(self, output):
        self.assertIn("clone\nfunctions\nlimit ", output)
        memory, traces = ctl_in(output[output.index("limit "):])
        self.assertEqual((memory["used"], memory["stacks"], memory["contexts"], traces), (0, 0, 0, []), output)

    def counts_of(self, commands, work, *options):
        output = self.run_guest(f"""exec 3<>#probe/clone; read n <&3
echo '{commands}
start' >&3
{work}
echo stop >&3; echo =; cat "#probe/$n/counts"; echo =; exec 3>&-{ENDS}""", *options)
        _, text, rest = output.split("=\n")
        self.check_nothing_left(rest)
        counts = Counts(text)
        header = counts.header
        self.assertEqual(header["hits"], header["counted"] + header["filtered"] + header["lost"])
        self.assertEqual(sum(row["count"] for row in counts.rows), header["counted"], text)
        self.assertEqual(len(counts.rows), header["stacks"])
        return counts


class Counting(ProbeTest):
    def test_exact(self):
        counts = self.counts_of("count pipe_create", "for i in 1 2 3 4 5 6 7; do echo $i | cat > /dev/null; done")
        self.assertEqual((counts.state, counts.functions, counts.header["counted"]), ("stopped", 1, 7))
        [row] = counts.rows
        self.assertGreaterEqual(len(row["kernel"]), 4)
        self.assertEqual(set(row), {"count", "kernel", "user"})

    def test_nothing_told_apart(self):
        counts = self.counts_of("count pipe_create sys_pipe2\nstacks none", "echo 1 | cat > /dev/null")
        self.assertEqual([(row["count"], row["kernel"], row["user"]) for row in counts.rows], [(2, (), ())])

    def test_processes_and_user_stacks(self):
        counts = self.counts_of("count sys_pipe2\nstacks user\nprocesses",
                                "echo 1 | cat; sh -c 'echo 2 | cat; echo 3 | cat'")
        self.assertEqual(sorted(row["count"] for row in counts.rows), [1, 1, 1], counts.rows)  # two places of the same child
        self.assertEqual(len({row["pid"] for row in counts.rows}), 2)
        for row in counts.rows:
            self.assertEqual((row["name"], row["path"], row["kernel"]), ("sh", "/bin/sh", ()))
            self.assertRegex(row["build"], "^[0-9a-f]{40}$")

    def test_programs_are_told_apart_with_user_stacks(self):
        counts = self.counts_of("count sys_pipe2\nstacks both", "for i in 1 2 3; do sh -c 'echo 2 | cat'; done")
        self.assertEqual([row["count"] for row in counts.rows], [3])
        self.assertEqual(counts.rows[0]["path"], "/bin/sh")
        self.assertNotIn("pid", counts.rows[0])

    def test_filters(self):
        counts = self.counts_of("count sys_pipe2\npid '$$'", "echo 1 | cat; sh -c 'echo 2 | cat'")
        self.assertEqual((counts.header["counted"], counts.header["filtered"]), (1, 1))
        counts = self.counts_of("count sys_pipe2\ncpu 0", "echo 1 | cat; echo 2 | cat", "--smp", "1")
        self.assertEqual((counts.header["counted"], counts.header["filtered"]), (2, 0))

    def test_depth(self):
        counts = self.counts_of("count pipe_create\ndepth 2", "echo 1 | cat")
        self.assertEqual(([len(row["kernel"]) for row in counts.rows], counts.header["truncated"]), ([2], 1))

    def test_everything(self):
        counts = self.counts_of("count *\nstacks both\nprocesses", "for i in 1 2 3 4; do sh -c 'ls / | cat' & done; wait")
        self.assertGreater(counts.functions, 1000)
        self.assertGreater(counts.header["counted"], 10000)
        self.assertEqual((counts.header["lost"], counts.header["stacks_lost"], counts.header["contexts_lost"]), (0, 0, 0))

    def test_program(self):
        sh = Program("dash", "/bin/sh")
        counts = self.counts_of(f"count {sh.at('_malloc_r')}\nprocesses", "sh -c 'x=1; y=2'")
        self.assertGreater(counts.header["counted"], 0)
        start = sh.functions["_malloc_r"][0]
        for row in counts.rows:
            self.assertEqual((row["user"][0], row["path"], row["kernel"]), (start + 5, "/bin/sh", ()))


class Outstanding(ProbeTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def dump_of(self, commands, work):
        output = self.run_guest(f"""exec 3<>#probe/clone; read n <&3
cat /host/commands >&3
{work}
cat "#probe/$n/outstanding" > /host/dump; cat "#probe/$n/counts"; exec 3>&-; echo =;{ENDS}""", "--share", str(self.folder),
                                prepare=lambda: (self.folder / "commands").write_text(commands + "\nstart\n"))
        text, rest = output.split("=\n")
        self.check_nothing_left(rest)
        dump = TraceDump.load(self.folder / "dump")
        for source in dump.sources:
            self.assertEqual((source.kind, source.counters["seen"]), ("probe", source.counters["recorded"] + source.counters["dropped"] + source.counters["filtered"]))
            self.assertEqual(source.counters["recorded"], source.counters["freed"] + source.counters["cleared"] + source.counters["live"])
            self.assertEqual((source.counters["live"], source.counters["dropped"]), (len(source.records), 0))
            self.assertEqual((source.counters["stacks_lost"], source.counters["contexts_lost"]), (0, 0))
        return dump, text

    def run_guest(self, *arguments, prepare=lambda: None, **options):
        prepare()
        return super().run_guest(*arguments, **options)

    def check(self, mode, commands, name="probe/1"):
        dump, text = self.dump_of(commands, f"heaptest {mode}")
        records = {record.object: record for record in dump.source(name).records}
        left = {int(at, 16): int(size) for at, size in re.findall(r"^left ([0-9a-f]+) (\d+)$", text, re.M)}
        gone = {int(at, 16) for at in re.findall(r"^gone ([0-9a-f]+)$", text, re.M)} - set(left)
        self.assertTrue(left)
        self.assertEqual({at: records[at].size for at in left if at in records}, left, text)
        self.assertEqual(gone & set(records), set(), text)
        for record in records.values():
            self.assertEqual((dump.contexts[record.context].path, dump.stacks[record.stack].kind), ("/bin/heaptest", "user"))
        return dump, records, text

    def test_objects(self):
        program = Program("heaptest")
        dump, records, text = self.check("objects", program.allocators())
        main = program.functions["main"]
        for record in records.values():
            frames = dump.stacks[record.stack].frames
            if record.size in (100, 70, 333):
                self.assertTrue(any(main[0] < frame <= main[0] + main[1] for frame in frames[:4]), (record, frames))
        self.assertEqual(dump.source("probe/1").counters["unmatched"], 0)
        self.assertEqual(len([record for record in records.values() if record.size == 100]), 3)

    def test_fork(self):
        dump, _, _ = self.check("fork", Program("heaptest").allocators())
        self.assertEqual(dump.source("probe/1").counters["unmatched"], 1)  # the child's copy

    def test_exec(self):
        dump, _, _ = self.check("exec", Program("heaptest").allocators())
        self.assertGreater(dump.source("probe/1").counters["cleared"], 0)

    def test_memory(self):
        dump, records, _ = self.check("memory", "watch memory", "probe/1/mmap")
        self.assertEqual(sorted(record.size for record in records.values()), [4096, 3 * 4096, 4 * 4096])

    def test_exception(self):
        program = Program("heaptest")
        self.check("throw", f"alloc {program.at('_Znwm', True)} size=1\n{program.allocators()}")

    def test_size_filters(self):
        dump, _ = self.dump_of(Program("heaptest").allocators() + "\nmin 100\nmax 333", "heaptest objects")
        source = dump.source("probe/1")
        self.assertTrue(all(100 <= record.size <= 333 for record in source.records))
        self.assertGreater(source.counters["filtered"], 5)


if __name__ == "__main__":
    unittest.main()
