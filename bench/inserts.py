"""Measures the cost of inserts in sqlite3, a real program. Each insert is a separate transaction on
a database in #tmp.

The method is that of whole loads (loads.py), in a guest with the port sqlite3.
"""
import loads

INSERTS = 2000
DATABASE = "/tmp/inserts.db"
STATES = ("untraced", "on", "sampled")


def script(state, count):
    """Returns a script that creates the database and the input file and sets the traces to `state`. Then one sqlite3 process makes `count`
    autocommitted inserts."""
    return "\n".join([
        f"sqlite3 {DATABASE} 'create table t (n integer, text)' || exit",
        f"i=0; while [ $i -lt {INSERTS} ]; do echo \"insert into t values ($i, 'the text of row $i');\"; i=$((i+1)); done > /tmp/inserts",
        loads.STATES[state],
        f"head -n {count} /tmp/inserts | sqlite3 {DATABASE} || exit",
        f"[ \"$(sqlite3 {DATABASE} 'select count(*) from t; pragma integrity_check')\" = \"{count}\nok\" ]",
    ])


def measure(build=True):
    """Returns {row: value}: thousands of instructions for an untraced insert, and the per cent that traces add."""
    guest = loads.Guest(ports=("sqlite3",), build=build)
    counted = {state: guest.run(script(state, INSERTS))[1] - guest.run(script(state, 0))[1] for state in STATES}
    untraced = counted["untraced"]
    return {"inserts": untraced / INSERTS / 1000} | {f"inserts_{state}": loads.per_cent(counted[state], untraced)
                                                     for state in STATES if state != "untraced"}


def rows():
    """The names of the rows of measure()."""
    return ["inserts", *(f"inserts_{state}" for state in STATES if state != "untraced")]
