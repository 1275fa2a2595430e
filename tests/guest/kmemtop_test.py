"""kmemtop, in batch mode and on a terminal."""
import re

import pytest

from console import until_cue
from guest import guest, sections_of
from terminal import Terminal

pytestmark = pytest.mark.cpus(1)

READ_IN_BETWEEN = 48  # KiB; extra memory that kmemtop may have while it reads a dump
REFRESHES = 50
SPARKS = "▁▂▃▄▅▆▇█"
KEYS = " t trace  Enter stacks  n l b r c sort  R reverse  / filter  ? help  q quit"
# A row on a terminal of 80 columns: name, type, live, bytes, rate, change, trend, trace.
ROW = re.compile(rf"(\S+) +([ASR]) +(\d\S*) +(\d\S*|-) +([-+]?\d\S*) +([-+]?\d\S*)  [ _.:=+*#{SPARKS}-]{{13,}}(?: (\S+))?")
TABLE = re.compile(r"kmemtop after ([\d.]+) s: (\d+) sources, (\d+) traced")
LINE = re.compile(r"(\S+) +([ASR]) +(\d+) +(\d+) +(-?[\d.]+) +([-+]\d+)  (off|running|stopped|never|gone)")


def rows_of(terminal, last=22):
    """Returns the rows on the screen, each a match of ROW: a cache, an arena or a class of references. Fails if a line is none of these."""
    rows = []
    for line in terminal.lines()[2:last]:
        if line:
            assert (found := ROW.fullmatch(line)), f"{line!r} in\n{terminal.text()}"
            rows.append(found)
    return rows


def names_of(terminal, last=22):
    return [row[1] for row in rows_of(terminal, last)]


def tables_in(output):
    """Returns a list of {name: fields}, one for each table."""
    tables = []
    for line in filter(None, output.splitlines()):
        if TABLE.fullmatch(line):
            tables.append({})
        elif not line.startswith("NAME "):
            assert (found := LINE.fullmatch(line)), line
            tables[-1][found[1]] = found.groups()[1:]
    return tables


def start(terminal, command):
    """Runs `command`, which starts kmemtop, and waits until kmemtop has drawn its table."""
    terminal.screen.reset()
    terminal.type(command + "\n")
    terminal.wait_for(r"^ kmemtop  \d.*\n(.*\n)*?NAME +T ")


def shell_again(terminal):
    """The shell has the terminal again: typed text is shown, edited and executed."""
    terminal.wait_for(r"^#\s*\Z")
    terminal.type("echo xx\x7f\x7fend$((6 * 7))\n")
    terminal.wait_for(r"^end42$")
    assert re.search(r"^# echo end\$\(\(6 \* 7\)\)$", terminal.text(), re.MULTILINE), terminal.text()


@pytest.fixture(name="terminal")
def one_terminal(tmp_path):
    with Terminal(share=tmp_path) as terminal:
        terminal.wait_for(r"^#")
        yield terminal


def test_a_leak_from_growth_to_stack(terminal):
    """A growing cache is in the first row within two refreshes. The key t starts the cache's trace and shows the allocating stacks. The same key
    stops the trace and starts it again. The key x stops the trace and frees its records."""
    terminal.type("while :; do leakdemo leak 100; usleep 50000; done &\n")
    start(terminal, "kmemtop -d 3")  # so that the host sees each refresh, even if it is busy
    terminal.wait_for(r"^leaky .* \+\d")
    assert terminal.lines()[2].startswith("leaky"), terminal.text()
    assert sum(terminal.lines()[2].count(spark) for spark in SPARKS) <= 3, "the first counts and two refreshes"
    assert terminal.lines()[23] == KEYS
    terminal.type("q")
    shell_again(terminal)

    start(terminal, "kmemtop -d 0.5")
    terminal.wait_until(lambda: re.match(r"leaky .* \+\d", terminal.lines()[2]))
    terminal.type("t")
    terminal.wait_for(r"leaky_open\+0x")
    terminal.wait_for(r"trace running  \d+ live, \d+ bytes, \d+ not recorded, 1 stack")
    assert re.match(r" leaky  cache  \d+ live", terminal.lines()[0])
    terminal.wait_for(r"contexts pid \d+ leakdemo")
    terminal.type("t")
    terminal.wait_for(r"trace stopped")
    terminal.type("\x1b")
    terminal.wait_for(r"^leaky .* stopped$")
    terminal.type("t\x1b")
    terminal.wait_for(r"^leaky .* traced$")

    # After ^L, kmemtop uses the new size of the terminal, and each row is complete again.
    for rows, columns in ((40, 120), (12, 60), (24, 80)):
        terminal.resize(rows, columns)
        terminal.type("\x0c")
        terminal.wait_for(rf"\A kmemtop.*\n(.*\n){{{rows - 2}}} t trace  Enter stacks")
        if columns >= 80:
            terminal.wait_until(lambda: len(set(names_of(terminal, rows - 2))) == rows - 4)
        assert max(map(len, terminal.lines())) <= columns

    terminal.type("x")
    terminal.wait_while(r"^leaky .* traced$")
    terminal.type("q")
    shell_again(terminal)
    terminal.type("kill $!; wait; cat '#mem/kmemtrace/ctl' | grep -c state; echo over$((1 + 1))\n")
    assert terminal.wait_for(r"^(\d+)\nover2$")[1] == "0"


def test_keys(terminal):
    start(terminal, "kmemtop -d 0.2")
    terminal.type("n")
    terminal.wait_for("by name")
    terminal.wait_until(lambda: names_of(terminal) == sorted(names_of(terminal)))
    terminal.type("R")
    terminal.wait_for("by name, reversed")
    terminal.wait_until(lambda: names_of(terminal) == sorted(names_of(terminal), reverse=True))
    terminal.type("b")
    terminal.wait_for("by bytes$")
    terminal.wait_until(lambda: names_of(terminal)[0] == "page" and "page_4096" not in terminal.text())
    terminal.type("a")
    terminal.wait_for("^page_4096 .* -$")
    terminal.type("a/kmallok\x7fc_1")
    terminal.wait_for(r"Filter: kmalloc_1_")
    terminal.type("\r")
    terminal.wait_for(f'with "kmalloc_1"(.*\n)*{re.escape(KEYS)}')
    terminal.wait_until(lambda: len(names_of(terminal)) > 5 and all("kmalloc_1" in name for name in names_of(terminal)))
    terminal.type("\x1b")
    terminal.wait_for(r"^ref\.chan|^chan ")
    terminal.type("?")
    terminal.wait_for("keys and columns")
    terminal.type(" nG")
    terminal.wait_for(r"^vm_region ")
    terminal.wait_until(lambda: "address_space" not in names_of(terminal))
    # kmemtop reads the stacks of references when it opens their view, and again only on the keys Space, t and x.
    terminal.type("g/ref.chan\rt")
    terminal.wait_for(r"ref\.chan  references  \d+ live")
    terminal.wait_for(r"trace running  \d+ live, 0 bytes")
    terminal.type(" x")
    terminal.wait_for(r"Not traced\.")
    terminal.type("\x1b[B\x1b[A\x1b\x1b/tmp_page\r\r")  # arrow keys, Esc to the table, Esc to clear the filter, new filter
    terminal.wait_for(r"tmp_page  cache  0 live")
    terminal.type("q")
    shell_again(terminal)


def test_what_comes_and_goes(terminal):
    long_name = "a_cache_with_a_long_name"
    terminal.type(f"({until_cue('come')}; echo 'cache {long_name} 64 50' > '#debug/alloc'; {until_cue('go')}; echo 'destroy {long_name}' > '#debug/alloc') &\n")
    start(terminal, "kmemtop -d 0.2")
    terminal.cue("come")
    terminal.wait_for(r"^a_cache_with_a_lo~ S       50 .* \+50 ")
    terminal.resize(24, 100)
    terminal.type("\x0c")
    terminal.cue("go")
    terminal.wait_for(rf"^{long_name} S .* gone$")
    terminal.wait_while(long_name)
    terminal.type("q")
    shell_again(terminal)


def test_signals(terminal):
    """^C, SIGTERM and SIGHUP each give the terminal back to the shell."""
    for signal in ("INT", "TERM", "HUP"):
        if signal != "INT":
            terminal.type(f"({until_cue(signal)}; kill -{signal} $(pidof kmemtop)) &\n")
        start(terminal, "kmemtop -d 0.2")
        if signal == "INT":
            terminal.type("\x03")
        else:
            terminal.cue(signal)
        shell_again(terminal)


def test_other_terminals(terminal):
    """kmemtop fills a larger terminal. On a terminal that does not know UTF-8 and takes each byte for a character, kmemtop draws in ASCII. For a
    terminal that does not report its size, kmemtop uses LINES and COLUMNS, or 80x24 if these are not set."""
    terminal.resize(40, 120)
    start(terminal, "kmemtop -d 0.2")
    terminal.wait_until(lambda: len(set(names_of(terminal, 38))) == 36 and terminal.lines()[39] == KEYS)
    terminal.type("q")
    shell_again(terminal)
    terminal.resize(24, 80)
    terminal.take_for("latin-1")
    start(terminal, "kmemtop -d 0.2 -f chan")
    terminal.wait_for(r"^ref\.chan +R .* __")
    terminal.wait_until(lambda: not re.search(r"[^\n -~]", terminal.text()))
    terminal.type("q")
    shell_again(terminal)
    terminal.take_for("utf-8")
    terminal.answers = False
    terminal.resize(40, 120)
    start(terminal, "kmemtop -d 0.2")
    terminal.wait_for(rf"\A(.*\n){{23}}{re.escape(KEYS)}\n")
    terminal.wait_until(lambda: rows_of(terminal) and not re.search(r"[^\n -~]", terminal.text()))
    terminal.type("q")
    shell_again(terminal)
    start(terminal, "LINES=30 COLUMNS=100 kmemtop -d 0.2")
    terminal.wait_for(rf"\A(.*\n){{29}}{re.escape(KEYS)}\n")
    terminal.type("q")
    shell_again(terminal)


def test_without_the_rights(terminal):
    start(terminal, "proctest as 65534 kmemtop -d 0.2")
    terminal.wait_for(r"^ #mem/kmemtrace/ctl: Permission denied.*: counts only, no traces$")
    terminal.type("t")
    terminal.wait_for(r"^ #mem/kmemtrace/\S+: Permission denied")
    terminal.wait_until(lambda: rows_of(terminal))
    terminal.type("q")
    shell_again(terminal)


def test_it_does_not_grow_itself(terminal):
    """After many further refreshes with stacks on the screen, kmemtop has at most READ_IN_BETWEEN more memory than before. This is the memory of
    one dump: kmemtop may have this memory at the second measurement and not at the first one."""
    terminal.type("echo start > '#mem/kmemtrace/debug_64'; echo 'leak debug_64 20' > '#debug/alloc'\n")
    look = "grep VmRSS /proc/$(pidof kmemtop)/status"
    terminal.type(f"({until_cue('first')}; {look}; {until_cue('later')}; {look}; kill $(pidof kmemtop)) > /tmp/rss &\n")
    start(terminal, "kmemtop -d 0.02 -f debug_64")
    terminal.type("\r")
    terminal.wait_for("trace running")
    for cue in ("first", "later"):
        screens = set()
        terminal.wait_until(lambda: screens.add(terminal.text()) or len(screens) == REFRESHES)
        terminal.cue(cue)
    terminal.wait_for(r"^#\s*\Z")
    terminal.screen.reset()
    terminal.type("echo free debug_64 20 > '#debug/alloc'; wait; cat /tmp/rss\n")
    first, later = map(int, terminal.wait_for(r"^VmRSS: +(\d+) kB\nVmRSS: +(\d+) kB\n#").groups())
    assert later <= first + READ_IN_BETWEEN, terminal.text()


def test_batches():
    result = guest("""kmemtop -b -n 3 -d 0.1 > /tmp/out; echo $?
echo "== tables"; cat /tmp/out
echo "== growth"; (sleep 0.3; leakdemo leak 25) & kmemtop -b -n 2 -d 1 -f leaky; wait
echo "== reversed"; kmemtop -b -n 1 -r -s name -f kmalloc
echo "== all"; kmemtop -b -n 1 -a; cat #mem/kmemstat > /tmp/stat; wc -l < /tmp/stat
echo "== ended"; (kmemtop -b -d 0.2 > /tmp/out; echo $?) & sleep 1; kill -TERM $(pidof kmemtop); wait
echo "== closed"; (kmemtop -b -d 0.1; echo $? >&2) 2> /tmp/err | head -n 1 > /dev/null; cat /tmp/err""", "--icount", "--timeout", "600")
    assert result.status == 0 and result.stderr == "", result
    sections = sections_of("== status\n" + result.stdout)
    assert sections["status"] == "0\n"
    tables = tables_in(sections["tables"])
    assert len(tables) == 3 and all(table.keys() == tables[0].keys() for table in tables)
    assert {"page", "leaky", "chan", "ref.chan"} <= tables[0].keys() and "page_4096" not in tables[0]
    first, second = tables_in(sections["growth"])
    assert (first["leaky"][1], second["leaky"][1], second["leaky"][4]) == ("0", "25", "+25")
    assert int(second["leaky"][2]) == 25 * 192
    assert 20 < float(second["leaky"][3]) <= 25
    [names] = tables_in(sections["reversed"])
    assert len(names) > 10 and list(names) == sorted(names, reverse=True)
    *lines, count = sections["all"].rstrip().splitlines()
    [everything] = tables_in("\n".join(lines))
    assert len(everything) == int(count) - 1 and everything["page_4096"][5] == "never"
    assert sections["ended"] == "0\n"
    assert sections["closed"] == "kmemtop: the output cannot be written\n2\n"


def test_bad_arguments():
    bad = ["-x", "x", "-d", "-d 0", "-d x", "-d -1", "-d nan", "-d 1e9", "-n 0", "-n 1.5", "-n x", "-s size", "-s ''", "--nosuch"]
    result = guest("\n".join(f"kmemtop -b {arguments} > /tmp/out 2> /tmp/err; echo $? $(wc -c < /tmp/out) \"$(grep -c '^usage: kmemtop' /tmp/err)\" "
                             "$(grep kmemtop: /tmp/err)" for arguments in bad) +
                   "\nkmemtop; echo $?; TERM= kmemtop < '#cons/cons' > '#cons/cons'; echo $?; kmemtop -h", "--icount", "--timeout", "600")
    lines = result.stdout.splitlines()
    for arguments, line in zip(bad, lines):
        assert re.search(r"^2 0 1 kmemtop: .", line), arguments
    assert lines[len(bad):len(bad) + 3] == ["2", "2", "usage: kmemtop [-h] [-a] [-A] [-b] [-d SECONDS] [-f TEXT] [-n COUNT]"]
    assert "kmemtop: this is no terminal: -b prints tables" in result.stderr


@pytest.mark.parametrize("name", ("dumb", "nosuch"))
def test_terminals_that_it_cannot_use(terminal, name):
    terminal.screen.reset()
    terminal.type(f"TERM={name} kmemtop; echo status$?\n")
    assert terminal.wait_for(rf"^kmemtop: TERM={name}: (.*)\nstatus2$")[1].endswith("-b prints tables")
    shell_again(terminal)
