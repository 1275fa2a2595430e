"""The shell dash and the tools of busybox with the changes for this system, and the C++ library."""
import re

import pytest

from guest import guest

pytestmark = pytest.mark.cpus(1)

# Input for the shell, in which each unquoted `#` at the start of a word begins a comment or the path
# of a device.
WORDS = r"""
p() { for a in "$@"; do printf '<%s>' "$a"; done; echo; }
# a comment
#comment
#mem/x in command position
p #mem/kmemstat a #x b
p a #mem/$((1+1))"q" b # comment
p a#b #MEM/x
p #mem
p #9/x
p #p9/x;#mem/x
p #a/b && p y #a/c|cat
for i in #mem/a #mem/b # c
do p $i; done
case #mem/a in
#mem/a) p no
  "#mem/"*) p yes;; # mem
esac
A=1 #mem/x in command position
A=1 p #mem/x
( p #mem/s ) #mem/x
{ p #mem/g; } #mem/x
if true; then #mem/x
p then; fi #mem/x
p `echo #mem/x` $(echo #mem/y #z
)
p "#mem/x" '#mem/x' \#mem/x
p $(#mem/x
echo #abc/x
)
p 1>#tmp/words
cat #tmp/words <<EOF
#mem/x in a here-document
EOF
"""
WORDS_READ = """<#mem/kmemstat><a>
<a><#mem/2q><b>
<a#b>


<#p9/x>
<#a/b>
<y><#a/c>
<#mem/a>
<#mem/b>
<yes>
<#mem/x>
<#mem/s>
<#mem/g>
<then>
<#mem/x><#mem/y>
<#mem/x><#mem/x><#mem/x>
<#abc/x>

"""

TOOLS = r"""
mkdir /tmp/d && cd /tmp/d && pwd
seq 1 20 > numbers; cp numbers copy; mv copy moved; ls
grep 1 numbers | sort -rn | head -3 | tr '\n' ' '; echo
wc -l < moved
sed 's/^1$/one/' numbers | awk 'NR == 1 { print toupper($1) }'
cmp numbers moved && echo same
echo a b c | xargs -n1 echo
find . -type f -name 'm*'
dd if=/dev/zero bs=1024 count=3 2>/dev/null | wc -c
printf '%s %x\n' abc 255
test -d /tmp -a ! -e /nosuch; echo $?
chmod 400 moved; ls -l moved | cut -c1-10
tail -n 2 numbers | tee last; diff last last && date +%s | grep -c '^[0-9]*$'
echo x | md5sum
cd ..; rm -r d; ls -d d 2>/dev/null || echo gone
sleep 0.01; kill -0 $$ && ps -o args | grep -c '^ps'; ps | grep -c '^ *1 root .*init'
cd /proc && cd - && pwd; true && ! false && echo logic
env | grep '^PATH'; which sh; uname; id -u
"""
TOOLS_SAY = """/tmp/d
moved
numbers
19 18 17 
20
ONE
same
a
b
c
./moved
3072
abc ff
0
-r--------
19
20
1
401b30e3b8b5d629635a5c613cdb7919  -
gone
1
1
/tmp
/tmp
logic
PATH=/bin
/bin/sh
Stele
0
"""

STATUSES = r"""
(exit 3); echo $?
sh -c 'kill -9 $$' 2>/dev/null; echo $?
nosuchprogram 2>/dev/null; echo $?
/etc/profile 2>/dev/null; echo $?
usleep 20000 & wait $!; echo $?
sleep 100 & kill $!; wait $! 2>/dev/null; echo $?
trap 'echo caught' USR1; kill -USR1 $$
i=0; while [ $i -lt 50 ]; do (exit $i) & i=$((i+1)); done; wait; echo all
timeout 0.05 sleep 10 2>/dev/null; echo $?
yes | head -n 100000 | wc -l; seq 1 100000 | sort -n | tail -n 1; echo $(echo a; echo b)
exit 42
"""
STATUSES_SAY = "3\n137\n127\n126\n0\n143\ncaught\nall\n143\n100000\n100000\na b\n"


maxDiff = None


def test_device_paths_and_comments():
    result = guest(WORDS)
    assert result.stdout == WORDS_READ
    assert (result.status, result.stderr) == (0, "")


def test_tools():
    result = guest(TOOLS)
    assert result.stdout == TOOLS_SAY
    assert (result.status, result.stderr) == (0, "")


def test_tee_writes_a_command_whole():
    result = guest("printf 'start\\nmark\\n' | tee #mem/kmemtrace/pipe; head -n 1 #mem/kmemtrace/pipe")
    assert re.fullmatch(r"start\nmark\nkmemtrace pipe state running objsize \d+ depth 32 mark 1\n", result.stdout), result


@pytest.mark.cpus(4)
def test_statuses_and_signals():
    result = guest(STATUSES)
    assert result.stdout == STATUSES_SAY
    assert result.status == 42


def test_error_strings_stand_behind_the_message():
    result = guest("echo nonsense > #cons/power; date > #cons/power; cp /etc/profile /bin/new; cat #nosuch/x; echo x > #nosuch/x; cat /nosuch")
    assert "echo: Invalid argument: power takes: off, halt, reboot\n" in result.stderr
    assert "date: standard output: Invalid argument: power takes: off, halt, reboot\n" in result.stderr
    assert "cp: can't create '/bin/new': Read-only file system: #root is the initial archive" in result.stderr
    assert "cat: can't open '#nosuch/x': No such device or address: #nosuch: no such device\n" in result.stderr
    assert "cannot create #nosuch/x: No such device or address: #nosuch: no such device\n" in result.stderr
    assert result.stderr.endswith("cat: can't open '/nosuch': No such file or directory\n"), result
    assert result.status == 1


def test_leakdemo_says_how_it_is_used():
    calls = ("", "leak", "leak x", "leak -1", "leak 1x", "clean 1", "other")
    result = guest("".join(f"leakdemo {arguments}; echo $?\n" for arguments in calls))
    assert result.stdout == "2\n" * len(calls)
    assert result.stderr.count("usage: leakdemo clean") == len(calls)


def test_job_control_in_a_script():
    """The script's shell stays in the console's foreground process group, also under `set -m`. So the shell never waits until its process group is
    in the foreground."""
    result = guest("set -m; sleep 50 & kill -STOP %1; wait %1; echo $?; bg %1 > #null/null; kill -9 %1; wait %1; echo $?; sleep 0.01 | cat; echo done",
                   "--timeout", "30")
    assert (result.status, result.stdout) == (0, "145\n137\ndone\n"), result


def test_cxx_library():
    """The checks of the program cxxtest pass: exceptions, streams, containers, static objects, and stack walks by frame pointers through the
    library's functions."""
    result = guest("cxxtest; echo $?; ls /tmp")
    assert "not ok" not in result.stdout
    assert re.search(r"\n1\.\.\d+\n0\n$", result.stdout)
    assert (result.status, result.stderr) == (0, "")
