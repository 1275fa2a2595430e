"""sqlite3 in #tmp: many processes write one database and are killed in the middle.

Locks, journals and recovery are sqlite's. It needs of the system that locks exclude, that they end
with their process, and that the next process sees the writes of the previous one. The rest of its
tests are in user/ports/sqlite3/tests.
"""
import random

import pytest

from guest import BUILD, guest

pytestmark = pytest.mark.skipif(not (BUILD / "ports/sqlite3.cpio").is_file(), reason="sqlite3 is not built: make port-sqlite3")

# A transaction adds a row and counts it elsewhere, so that half of one would show. A reader must never see a difference.
PREPARE = r"""
cd /tmp
check='select (select count(*) from added) = (select sum(n) from counted) and not exists
  (select 1 from counted where n <> (select count(*) from added where added.who = counted.who));'
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
    """Six processes are killed one after the other, in any order, after up to half a second and with moments between."""
    chance = random.Random(seed)
    for _ in range(number):
        order = chance.sample(range(1, 7), 6)
        waits = [chance.uniform(0.05, 0.5), *(chance.choice((0, 0, 0.02, 0.1)) for _ in range(5))]
        yield "kills='" + "; ".join(f"sleep {wait:.2f}; kill -9 ${process}" for wait, process in zip(waits, order)) + "'; round"


@pytest.mark.parametrize("number", (3, pytest.param(100, marks=pytest.mark.long)))
def test_killed_while_writing(number):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    script = "\n".join((PREPARE, *rounds(number, seed), "sort reads | uniq -c | awk '{ print \"read\", $2 }'; cat errors >&2",
                        "sqlite3 a.db 'select \"written\", sum(n) > 0 from counted'"))
    result = guest(script, "--port", "sqlite3", "--timeout", "900")
    assert result.stdout.splitlines() == ["ok 1 "] * number + ["read 1", "written|1"], result
    assert result.stderr == "", result
