"""sqlite3 in #tmp: many processes write one database and are killed in the middle.

sqlite has its own journals and recovery. It relies on the system for three things: file locks exclude each other, a lock ends with its
process, and a process sees what others have written before. With a write-ahead log, the processes also share a mapped file, the index of
the log. sqlite's other tests are in user/ports/sqlite3/tests.
"""
import random

import pytest

from guest import BUILD, guest

pytestmark = pytest.mark.skipif(not (BUILD / "ports/sqlite3.cpio").is_file(), reason="sqlite3 is not built: make port-sqlite3")

# Each transaction adds a row to the table `added`, and counts the row in the table `counted`. `check` is 1 if the two tables agree. They agree
# for every reader unless the reader sees half a transaction.
PREPARE = r"""
cd /tmp
check='select (select count(*) from added) = (select sum(n) from counted) and not exists
  (select 1 from counted where n <> (select count(*) from added where added.who = counted.who));'
sqlite3 a.db "pragma journal_mode = $journal" > /dev/null
sqlite3 a.db "create table added(id integer primary key, who int, what text); create index by_who on added(who, what);
  create table counted(who int primary key, n int); insert into counted values (1,0),(2,0),(3,0),(4,0);"
for who in 1 2 3 4; do
  awk -v who=$who 'BEGIN { for (i = 0; i < 3000; i++) printf "begin immediate; insert into added(who, what) values (%d, hex(randomblob(%d)));\n" \
    "update counted set n = n + 1 where who = %d; commit;\n", who, i * 37 % 1500, who }' > write$who.sql
done
awk -v check="$check" 'BEGIN { for (i = 0; i < 20000; i++) print check }' > read.sql
round() {
  pids=
  for who in 1 2 3 4; do sqlite3 -cmd '.timeout 60000' a.db < write$who.sql 2>> errors & pids="$pids $!"; done
  for who in 5 6; do sqlite3 -cmd '.timeout 60000' a.db < read.sql >> reads 2>> errors & pids="$pids $!"; done
  set -- $pids
  eval "$kills"
  wait
  echo "$(sqlite3 -cmd '.timeout 60000' a.db 'pragma integrity_check;' "$check" 2>&1 | tr '\n' ' ')"
}
"""


def rounds(number, seed):
    """Yields the shell commands of each round. A round kills the six processes in random order: the first after at most half a second, and each
    further process at most 0.1 seconds after the one before it."""
    chance = random.Random(seed)
    for _ in range(number):
        order = chance.sample(range(1, 7), 6)
        waits = [chance.uniform(0.05, 0.5), *(chance.choice((0, 0, 0.02, 0.1)) for _ in range(5))]
        yield "kills='" + "; ".join(f"sleep {wait:.2f}; kill -9 ${process}" for wait, process in zip(waits, order)) + "'; round"


@pytest.mark.cpus(4)
@pytest.mark.parametrize("journal", ("delete", "wal"))
@pytest.mark.parametrize("number", (3, pytest.param(100, marks=pytest.mark.long)))
def test_killed_while_writing(number, journal):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    script = "\n".join((f"journal={journal}", PREPARE, *rounds(number, seed), "sort reads | uniq -c | awk '{ print \"read\", $2 }'; cat errors >&2",
                        "sqlite3 a.db 'select \"written\", sum(n) > 0 from counted' 'pragma journal_mode'"))
    result = guest(script, "--port", "sqlite3", "--timeout", "1800")
    assert result.stdout.splitlines() == ["ok 1 "] * number + ["read 1", "written|1", journal], result
    assert result.stderr == "", result
