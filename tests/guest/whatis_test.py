"""#mem/whatis: the object at an address, the pointers to it, and the shortest path to it from a root."""
import re

import pytest

from debugged import WAIT, waiting, whatis
from guest import guest, sections_of

ASK = """
ask() { { echo "$1" >&3; cat <&3; } 3<> '#mem/whatis'; }
objects_of() { sed -n 's/^\\t\\(0x[0-9a-f]*\\) size.*/\\1/p' "#mem/kmemtrace/$1"; }
"""


def answers_in(text):
    """Returns {address: [lines]}."""
    return {int(answer.partition(" ")[0], 16): answer.splitlines() for answer in re.split(r"^(?=0x[0-9a-f]+ is )", text, flags=re.M) if answer}


@pytest.mark.cpus(1)
def test_an_open_file_has_a_question_and_its_answer():
    result = guest(ASK + """
echo == none; cat '#mem/whatis'
echo == pieces; { echo 0 >&3; dd bs=7 <&3 2> /dev/null; } 3<> '#mem/whatis'
echo == decimal; ask 18446744073709551615
echo == again; { echo 0x10 >&3; head -c 5 <&3; echo; echo ' 0XFFFFFFFFFFFFFFFF  ' >&3; cat <&3; echo 12x >&3; cat <&3; } 3<> '#mem/whatis'
echo == two; exec 3<> '#mem/whatis' 4<> '#mem/whatis'; echo 1 >&3; echo 2 >&4; cat <&3; cat <&4; (cat <&4); exec 3>&- 4>&-
echo == words
for word in '' ' ' x 0x 0xg 1g -1 +1 '1 2' 0x1ffffffffffffffff 99999999999999999999 stop; do ask "$word"; done
printf '1\\n2\\n' > '#mem/whatis'
echo == nobody; proctest walk 65534 '#mem/whatis'; ls -l '#mem' | grep whatis
""")
    parts = sections_of(result.stdout)
    user = "0x{} is an address of user space\n"
    assert parts["none"] == parts["words"] == "", result
    assert parts["pieces"] == user.format(0), result
    assert parts["decimal"] == "0xffffffffffffffff is nothing\n", result
    assert parts["again"].startswith("0x10 \n0xffffffffffffffff is nothing\n"), result
    assert parts["two"] == user.format(1) + user.format(2), result
    assert result.stderr.count("expected an address, as 0xffff800000644008") == 11 + 1, result
    assert result.stderr.count("the address has more than 64 bits") == 2, result
    assert parts["nobody"].startswith("walked 1\n-rw-------"), result


@pytest.mark.cpus(1)
def test_an_open_file_is_alive_by_its_process():
    """The shortest path to a channel that a process has open leads through the process and its descriptor table. For each object on the path, the
    path has the offset of the pointer to the next object."""
    result = guest(ASK + """
echo start > '#mem/kmemtrace/chan'
exec 5< '#mem/free'
echo stop > '#mem/kmemtrace/chan'
for object in $(objects_of chan); do ask $object; done
""")
    files = [lines for lines in answers_in(result.stdout).values() if any("path_open+" in line for line in lines)]
    assert files, result
    lines = files[0]
    assert re.search(r" is the object (0x[0-9a-f]+) of chan, which has \d+ bytes: live$", lines[0]), result
    assert re.match(r"  allocated by pid 2 sh \d+ ms ago on CPU 0, \d+ bytes, mark 0$", lines[2]), result
    assert any(re.match(r"  pointed to by fd_table 0x[0-9a-f]+ \+0x[0-9a-f]+$", line) for line in lines), result
    chan = lines[0].split()[0]
    assert re.match(rf"  path: \w+\+0x[0-9a-f]+ → (process 0x[0-9a-f]+ \+0x[0-9a-f]+ → )+fd_table 0x[0-9a-f]+ \+0x[0-9a-f]+ → chan {chan}$",
                    lines[-1]), result


@pytest.mark.cpus(1)
def test_the_list_that_keeps_a_file():
    """A planted bug puts a reference to a directory's channel into the list `visited`, which nobody empties. The answer's path leads through this
    list, and no other object points to the channel."""
    result = guest(ASK + """
cd /tmp; cd /
for object in $(sed -n 's/^ref.chan \\(0x[0-9a-f]*\\) .* of kmalloc_.*/\\1/p' '#mem/references'); do ask $object; done
""", "--variant", "debug", "--cmdline", "break=ref_list trace=ref.chan")
    kept = {address: lines for address, lines in answers_in(result.stdout).items() if "  pointed to by process" not in "\n".join(lines)}
    assert kept, result
    for address, lines in kept.items():
        path = re.match(rf"  path: visited\+0x[0-9a-f]+ → ((?:kmalloc_\d+ 0x[0-9a-f]+ \+0x[0-9a-f]+ → )+)chan {address:#x}$", lines[-1])
        assert path, result
        *_, holder, _ = path[1].split(" → ")
        assert [line for line in lines if "pointed to by" in line] == [f"  pointed to by {holder}"], result


# plus() adds to the low 32 bits of an address, since the shell cannot calculate with addresses of the
# upper half: its numbers have 63 bits and a sign.
KINDS = WAIT + ASK + """
plus() { low=${1#0x????????}; printf '%s%08x\\n' ${1%$low} $((0x$low + $2)); }
echo check > #mem/kmemtrace/debug_1024
for name in debug_64 debug_1024 page kernel_virtual; do echo start > #mem/kmemtrace/$name; done
echo 'leak debug_64 60 depth=3' > #debug/alloc
all=$(objects_of debug_64)
echo 'free debug_64 50' > #debug/alloc
echo 'leak debug_1024 1' > #debug/alloc
echo 'leak page 1 size=100000' > #debug/alloc
sleep 1000 &
wait_until_it_sleeps $!
for name in debug_64 debug_1024 page kernel_virtual; do echo stop > #mem/kmemtrace/$name; done
echo == answers
for address in $all $(objects_of debug_1024) $(objects_of kernel_virtual); do ask $address; done
set -- $all $(objects_of debug_1024)
page=${1%???}
ask $(plus $1 9); ask ${page}fff; ask ${page}fc0; shift 60; ask $(plus $1 1023); ask $(plus $1 1024)
slab=$(ask $1 | sed -n 's/.* the checked slab \\(0x[0-9a-f]*\\) of.*/\\1/p')
for i in 0 1 2 3; do ask $(plus $slab $((i * 1024))); done
for range in $(objects_of kernel_virtual); do ask $(plus $range 16); ask $(plus $range 16384); done
for address in $(awk '/^[0-9]+ bytes/ { ours = 0 } /leak|task_create|AddressSpace::fault/ { ours = 1 } /^\\t0x/ && ours { print $1 }' '#mem/kmemtrace/page'); do
  ask $address
done
for address in 0 0x401000 0xffffffffffff0000 0xffff900000000000 0xffffc0ffffff0000 0x8000000000000000 0x0123456789abcdef 0xffffffffffffffff \\
  0xffff800000001000 0xffffffff80110000 0xffffffff80100000 0xffff800000110000 0xffff7fffffffffff 0xffffc0000003e000; do ask $address; done
echo == ready
sleep 1000
"""


def description(lines):
    """Removes the parts in which the answers of #mem/whatis and of scripts/whatis may differ. Only scripts/whatis prints source lines and inlined
    functions. Pointers, paths, ages, and the number of address spaces that map a file's page may change between the two questions."""
    plain = [re.sub(r" kern/\S+:\d+$", "", line) for line in lines if not re.match(r" +inlined |  (pointed to by|path:|no path|… \d+ more)", line)]
    plain = [re.sub(r"( a page of a file, which) \d+ address spaces? maps?$", r"\1 programs map", line) for line in plain]
    return [re.sub(r" \d+ ms ago", " N ms ago", line) for line in plain]


@pytest.mark.cpus(1)
def test_it_says_what_kmem_whatis_says(tmp_path):
    with waiting(KINDS, tmp_path, "--mem", "64M") as waits:
        inside = answers_in(waits.said["answers"])
        outside = whatis("--guest", waits.number, *(f"{address:#x}" for address in inside))
    assert outside.status == 0, outside
    outside = answers_in(outside.stdout)
    text = waits.said["answers"]
    for words in (" bytes: live\n", ": free, in ", "bytes into the slab structure", "behind an object", "by way of page_4096",
                  "a page of programs, which", "the direct map of", "the kernel stack of task", "the guard page below", "is code: ", "is nothing\n",
                  "an address of user space", "an allocation from the arena page", "allocated by pid 2 sh"):
        assert words in text, (words, text)
    assert len(inside) > 80
    wrong = {f"{address:#x}": (description(lines), description(outside[address])) for address, lines in inside.items()
             if description(lines) != description(outside[address])}
    assert wrong == {}


@pytest.mark.cpus(4)
def test_questions_on_all_cpus_while_others_work():
    result = guest(ASK + """
echo 'leak debug_64 3' > #debug/alloc
object=$(sed -n 's/^\\t\\(0x[0-9a-f]*\\) size.*/\\1/p' '#mem/unreachable' | head -n 1)
(while :; do ls -l / | sort > /dev/null; done) &
load=$!
for task in 1 2 3 4; do (for i in 1 2 3 4; do ask $object; ask 0xffff8000005${task}${i}0c0 > /dev/null; done > /tmp/$task) & asking="$asking $!"; done
wait $asking
kill $load
for task in 1 2 3 4; do cat /tmp/$task; done
for i in 1 2 3; do sh -c 'exec 3<> "#mem/whatis"; while :; do echo '$object' >&3; done' & sleep 0.1; kill -9 $!; wait $! 2> /dev/null; done
echo == killed; ask 1; cat '#mem/unreachable'
""")
    answers, killed = result.stdout.split("== killed\n")
    assert re.match(r"0x1 is an address of user space\nunreachable objects [0-3] bytes ", killed), result
    assert set(re.findall(r"objects of (\w+)", killed)) <= {"debug_64"}, result
    assert answers.count(" of debug_64, which has 64 bytes: live\n") == 16, result
    # The object is lost, but a path to it may begin at a stale word on the kernel stack of a task that has asked before. The path may also go through
    # the page of such a stack, if another kernel stack has a pointer to that page. The stale word may also lie in the buffer of a new pipe, in
    # which nothing has been written yet: the kernel does not clear such memory (docs/unreachable.md).
    stack, page = r"0x[0-9a-f]+, the kernel stack of task [^→]*", r"page 0x[0-9a-f]+ \+0x[0-9a-f]+"
    why = re.findall(r"^  (no path .*|path: .*|pointed to by .*)$", answers, re.M)
    buffer = r"pipe_buffer 0x[0-9a-f]+ \+0x[0-9a-f]+"
    right = (rf"no path from a root leads to it|path: (?:{stack} → (?:{page} → )?|.* → pipe 0x[0-9a-f]+ \+0x[0-9a-f]+ → {buffer} → )debug_64 0x[0-9a-f]+"
             rf"|pointed to by (?:{stack}|{page}|{buffer})")
    assert all(re.fullmatch(right, line) for line in why), result
    assert sum("path" in line for line in why) == 16, result
