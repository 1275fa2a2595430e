"""Every file of #mem and #debug rejects bad input with a clear error. No trace or planted leak is left over, and the system goes on."""
import re

import pytest

from guest import checked, dumps_in, guest

pytestmark = pytest.mark.cpus(1)

# Invalid commands. Every file that takes commands rejects each of them.
GARBAGE = [
    "", " ", "\\n", "\\n\\n\\n", "nonsense", "START", "startx", "start depth", "start depth=", "start depth=0", "start depth=-1",
    "start depth=99999999999999999999", "start depth=4 depth", "start depth=4x", "start 4", "stop now", "mark 7", "reset all",
    "start\\nnonsense", "nonsense\\nstart", "stop\\0start", "\\001\\002\\377\\376", "start\\0", "%s%s%s%n", "start depth=%n",
    "leak", "leak debug_64", "leak debug_64 0", "leak debug_64 -5", "leak debug_64 1x", "leak debug_64 99999999999999999999",
    "leak none 5", "leak debug_64 5 depth=0", "leak debug_64 5 depth=999", "leak debug_64 5 sideways", "free debug_64 1",
    "free none 1", "churn", "churn debug_64", "churn debug_64 5 irq", "leak debug_64 5\\nleak none 5", "limit", "settle down", "reap now",
    "check now", "nocheck 1", "scan\\ncheck\\nchek", "overrun", "overrun debug_64", "wrongfree debug_64", "doublefree none", "usefree debug_64 5",
    "panic now", "panicked",
]
# Files that take commands.
FILES = ["#mem/kmemtrace/debug_64", "#mem/kmemtrace/ctl", "#mem/whatis", "#debug/alloc", "#debug/crime", "#debug/ctl"]
READ_ONLY = ["#mem/kmemstat", "#mem/slab_stats", "#mem/arena_stats", "#mem/free", "#mem/ksyms", "#debug/leaky/leak", "#debug/leaky/clean"]


def test_nothing_is_taken():
    lines = []
    for file in FILES:
        for number, text in enumerate(GARBAGE):
            lines.append(f"printf '{text.replace('%', '%%')}' > /tmp/in; one '{file}' {number}")
    script = """
one() {
  { dd bs=65536 if=/tmp/in of="$1" conv=notrunc 2>&1; } > /tmp/message && [ -s /tmp/in ] && echo "taken: $1 $2"
  return 0
}
""" + "\n".join(lines) + """
cat #mem/kmemtrace/ctl #debug/alloc | grep -v '^limit [0-9]* used 0 stacks 0 contexts 0 untraced 0 sweeps [0-9]* forgotten [0-9]*$'
# Valid commands are accepted, so `one` distinguishes accepted input from rejected input.
printf 'start depth=4' > /tmp/in; one '#mem/kmemtrace/debug_64' good; echo reset > #mem/kmemtrace/debug_64
printf 'stop\\n\\n  reset \\n' > /tmp/in; one '#mem/kmemtrace/debug_64' good
# Long input: a megabyte in one write, as one line and as many lines.
yes start | head -c 1000000 > /tmp/long; yes x | tr -d '\\n' | head -c 1000000 > /tmp/one
for file in '#mem/kmemtrace/debug_64' '#mem/kmemtrace/ctl' '#debug/alloc' '#debug/crime' '#debug/ctl'; do
  dd bs=1000000 if=/tmp/one of="$file" conv=notrunc 2> /dev/null && echo "taken: long $file"
done
dd bs=1000000 if=/tmp/long of='#debug/alloc' conv=notrunc 2> /dev/null && echo "taken: lines"
dd bs=1000000 if=/tmp/long of='#mem/kmemtrace/none' conv=notrunc 2> /dev/null && echo "taken: none"
{ echo start > '#mem/kmemtrace/x/y' && echo "taken: x/y"; } 2> /dev/null
dd if=/dev/urandom bs=4096 count=20 of='#mem/kmemtrace/ctl' conv=notrunc 2> /dev/null && echo "taken: random"
dd if=/dev/urandom bs=4096 count=20 of='#debug/alloc' conv=notrunc 2> /dev/null && echo "taken: random"
for file in """ + " ".join(f"'{file}'" for file in READ_ONLY) + """; do
  { echo start > "$file"; } 2> /dev/null && echo "taken: $file"
  rm "$file" 2> /dev/null && echo "removed: $file"
  cat "$file" > /dev/null || echo "unreadable: $file"
done
rm '#mem/kmemtrace/debug_64' '#mem/kmemtrace' 2> /dev/null && echo removed
mkdir '#mem/new' '#debug/new' '#mem/kmemtrace/new' 2> /dev/null && echo made
# One byte at a time, at odd places, from the end.
dd if=#mem/kmemstat bs=1 2> /dev/null | wc -c > /tmp/a; cat #mem/kmemstat | wc -c > /tmp/b; cmp /tmp/a /tmp/b
dd if=#mem/kmemstat bs=7 skip=1000000 2> /dev/null | wc -c
cat #mem/kmemtrace/ctl #debug/alloc | grep -v '^limit [0-9]* used 0 stacks 0 contexts 0 untraced 0 sweeps [0-9]* forgotten [0-9]*$'
echo end
"""
    result = guest(script, "--timeout", "300")
    assert (result.status, result.stdout, result.stderr) == (0, "taken: #mem/kmemtrace/debug_64 good\n" * 2 + "0\nend\n", "")


# For each invalid command: its file, and what the error message has to say: what is valid, or why the command failed.
MESSAGES = (
    ("nonsense", "#mem/kmemtrace/debug_64", r"Invalid argument: .*expected start \[OPTION \.\.\.\], stop, reset, mark"),
    ("start depth=0", "#mem/kmemtrace/debug_64", r"Invalid argument: .*depth=N.* from 1 to \d+"),
    ("mark", "#mem/kmemtrace/debug_64", r"Invalid argument: .*start it before"),
    ("start", "#mem/kmemtrace/kmem_slab", r"kmem_slab cannot be traced"),
    ("leak debug_64", "#debug/alloc", r"leak NAME N \[depth=D\] \[size=BYTES\] \[irq\] \[atomic\] \[stays\], free NAME N"),
    ("leak none 5", "#debug/alloc", r"no cache is called \"none\""),
    ("nonsense", "#debug/ctl", r"panic"))


def test_messages():
    said = guest("".join(f"echo '{command}' > {file}\n" for command, file, _ in MESSAGES)).stderr
    for (_, _, why), line in zip(MESSAGES, said.splitlines(), strict=True):
        assert re.search(why, line), line


@pytest.mark.cpus(4)
def test_writers_and_readers():
    """Eight shells write valid and invalid words to the same files at once, and read dumps. The
    counters in every dump add up (docs/tracer.md)."""
    output = checked("""
worker() {
  n=0
  while [ $n -lt 15 ]; do
    echo start > #mem/kmemtrace/debug_64
    echo 'leak debug_64 10 depth=3' > #debug/alloc
    echo rubbish > #mem/kmemtrace/debug_64
    echo mark > #mem/kmemtrace/ctl
    cat #mem/kmemtrace/debug_64
    echo 'free debug_64 10' > #debug/alloc
    echo stop > #mem/kmemtrace/ctl
    cat #mem/kmemtrace/ctl > /dev/null
    printf 'stop\\nreset\\n' > #mem/kmemtrace/debug_64
    n=$((n + 1))
  done > /tmp/out.$1 2> /dev/null
}
for w in 1 2 3 4 5 6 7 8; do worker $w & done
wait
cat /tmp/out.*; rm /tmp/out.*
echo reset > #mem/kmemtrace/ctl; cat #mem/kmemtrace/ctl #debug/alloc
""", "--timeout", "300")
    dumps = dumps_in(output)
    assert len(dumps) > 0
    for dump in dumps:
        assert dump.broken_identities() == []
