"""Tests the shell, many processes at once, files that are not programs, and a system that runs out of memory."""
import pytest

from guest import guest, sections_of

pytestmark = pytest.mark.cpus(1)


# For each script: its output. `#name/…` is a path of a device wherever the shell expects a word that
# is not a command. Any other # at the start of a word begins a comment.
SHARP = {
    "echo a # comment": "a\n",
    "echo a #comment": "a\n",
    "echo a #comment/with slash": "a #comment/with slash\n",
    "#comment\necho b": "b\n",
    "#mem/kmemstat is a comment here\necho c": "c\n",
    "#!/bin/sh\necho d": "d\n",
    "echo e; #mem/kmemstat\necho f": "e\nf\n",
    "echo #mem": "\n",
    "echo '#mem' \"#mem\" \\#mem": "#mem #mem #mem\n",
    "echo #mem/kmemtrace/x2": "#mem/kmemtrace/x2\n",
    "echo a#mem/x b#c": "a#mem/x b#c\n",
    "echo #Mem/x": "\n",
    "echo #!/bin/x": "\n",
    "echo #/x": "\n",
    "x=#mem/free; echo $x": "#mem/free\n",
    "echo ${#x} $#": "0 0\n",
    "x=abcabc; echo ${#x} ${x#ab} ${x##*a}": "6 cabc bc\n",
    "for f in #mem/free #debug/alloc; do echo $f; done": "#mem/free\n#debug/alloc\n",
    "case x in #comment\nx) echo y;; esac": "y\n",
    "[ -e #mem/free ] && echo yes": "yes\n",
    "cat < #mem/free | head -n 1 | wc -l": "1\n",
    "ls -d '#mem'": "#mem\n",
    "/bin/cat #mem/none 2>&1 | head -c 4": "cat:",
}


@pytest.mark.parametrize("shell", ("sh", "mksh"))
def test_sharp(shell):
    scripts = [f"cat > /tmp/case <<'E{number}E'\n{script}\nE{number}E\necho '== {number}'; {shell} /tmp/case" for number, script in enumerate(SHARP)]
    result = guest("\n".join(scripts))
    sections = sections_of(result.stdout)
    assert {script: sections.get(str(number)) for number, script in enumerate(SHARP)} == SHARP, result.stderr


def test_copies_are_private():
    result = guest("x=1; (x=2; echo $x); echo $x; x=3 sh -c 'echo $x'; echo $x")
    assert result.stdout == "2\n1\n3\n1\n", result


@pytest.mark.cpus(4)
def test_many_processes_on_many_cpus():
    result = guest("""
for w in 1 2 3 4 5 6 7 8; do
  (n=0; while [ $n -lt 25 ]; do echo $n | cat | cat > /tmp/$w; n=$((n + 1)); done; cat /tmp/$w) &
done
wait
""", "--timeout", "240")
    assert (result.status, result.stdout) == (0, "24\n" * 8), result


def test_what_is_not_a_program():
    result = guest("""
echo 'not a program' > /tmp/text; chmod +x /tmp/text
head -c 100 /bin/sh > /tmp/short; chmod +x /tmp/short
head -c 3000 /bin/sh > /tmp/cut; chmod +x /tmp/cut
/tmp/short; echo $?
/tmp/cut; echo $?
/tmp; echo $?
/bin/none; echo $?
echo still here
""")
    lines = result.stdout.split()
    assert lines[-2:] == ["still", "here"], result
    assert all(int(status) != 0 for status in lines[:-2]), result


def test_end_of_memory():
    """A program that takes all memory gets an error or is killed. The kernel and the other programs go on."""
    result = guest("yes 12345678901234567890 | tr -d '\\n' | sort > /dev/null; echo status $?; ls / | wc -l",
                   "--mem", "40M", "--timeout", "240")
    assert result.status == 0, result
    assert result.stdout.endswith("\n9\n") or result.stdout.endswith("\n8\n"), result
