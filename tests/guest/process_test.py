"""Processes as programs meet them (user/bin/proctest), and that they leave nothing behind."""
import re
import subprocess
import unittest

from guest import BUILD, guest, live_counts

CACHES = ["task", "process", "address_space", "vm_region", "chan", "fd_table", "pipe", "pipe_buffer"]


class Proctest(unittest.TestCase):
    def check(self, *options):
        result = guest("exec proctest", "--timeout", "120", *options)
        self.assertEqual(result.status, 0, result)
        self.assertNotIn("not ok", result.stdout)

    def test_no_memory_does_not_end_process_1(self):
        """Processes may be killed, the script's shell too, but the system goes on."""
        script = "sh -c 'i=0; while [ $i -lt 300 ]; do i=$((i + 1)); sleep 3 & done; wait'; exit 3"
        result = guest(script, "--mem", "32M", "--timeout", "30")
        self.assertIn(result.status, (2, 3, 128 + 9), result)

    def test_one_cpu(self):
        self.check("--smp", "1")

    def test_four_cpus(self):
        self.check("--smp", "4")


class Status(unittest.TestCase):
    def test_program(self):
        """The ELF file, for a script its interpreter's, by path and build id."""
        long = "/tmp/" + "d" * 60 + "/" + "p" * 60
        result = guest("mkdir $D; cp /bin/sh $0; printf '#!/bin/sh\\ncat /proc/$$/status\\n' > /tmp/x; chmod +x /tmp/x\n"
                       "cat /proc/self/status; /tmp/x; $0 -c 'cat /proc/$$/status; :'".replace("$0", long).replace("$D", long.rpartition("/")[0]))
        self.assertEqual((result.status, result.stderr), (0, ""))
        paths, builds = (re.findall(rf"(?m)^{key}:\t(.*)$", result.stdout) for key in ("Path", "Build"))
        self.assertEqual(paths, ["/bin/cat", "/bin/sh", long])
        notes = [subprocess.run(["readelf", "-n", BUILD / "user/bin" / name], capture_output=True, text=True, check=True).stdout for name in ("busybox", "dash")]
        self.assertEqual(builds[1], builds[2])
        for build, note in zip(builds, notes):
            self.assertIn(f"Build ID: {build}\n", note)


class LeavesNothing(unittest.TestCase):
    """The live objects of every cache of processes are the same before and after."""

    def check(self, command, *options):
        show = "while ps | grep -q '[p]roctest'; do sleep 0.1; done; echo settle > #mem/kmemtrace/ctl; cat #mem/kmemstat"
        result = guest(f"{command}; {show}; {command}; {show}", "--timeout", "120", *options)
        self.assertEqual(result.status, 0, result)
        before, after = ({cache: table[cache] for cache in CACHES} for table in live_counts(result.stdout))
        self.assertEqual(before, after)

    def test_forks(self):
        self.check("proctest forks 1000")

    def test_every_kind_of_end(self):
        self.check("proctest fork exec signals kill faults descriptors pointers > /dev/null 2>&1")

    def test_out_of_memory(self):
        self.check("proctest exhaust 2", "--mem", "24M")


class KernelLog(unittest.TestCase):
    def test_fault_is_named(self):
        result = guest("proctest faults", log=False)
        self.assertEqual(result.status, 0, result)
        self.assertTrue(re.search(r"pid \d+ proctest: page fault at 0x[0-9a-f]+ ip 0x[0-9a-f]+", result.stderr), result)


if __name__ == "__main__":
    unittest.main()
