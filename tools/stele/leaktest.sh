# The guest's part of scripts/leaktest. tools/stele/leak_guest.py appends calls of these functions,
# and reads their output: lines `leaktest NAME VALUE`, and tables and dumps up to `leaktest end`.
#
# A separate shell runs the command, and ends before the measurement, so that none of its memory is
# counted. Before the trace, the measuring shell does once everything that it will do during the
# trace. So it has allocated its memory before the trace begins. After each run, processes that the
# command left running are killed. In the traced pass, the measuring shell exits with status 3 if
# one of its own steps fails. The status tells such a failure from a failure of the command. If
# memory has run out, the shell kills a sleeping process (`reserve`), which frees some memory, and
# reads the counts without starting another process.

ctl='#mem/kmemtrace/ctl'

step() { echo "$1" > "$ctl" || { echo "leaktest: $1 failed" >&2; exit 3; }; }
rest() { echo settle > "$ctl" 2> /dev/null || resting=0; }
dump() { echo "leaktest dump"; cat '#mem/tracedump' && echo "leaktest end"; }
# If there is no memory for #mem/references, the output is empty.
references() { echo "leaktest references"; cat '#mem/references'; echo "leaktest end"; }
counts() {
  echo "leaktest counts"
  while IFS= read -r line; do echo "$line"; done < '#mem/kmemstat'
  echo "leaktest end"
}
# The shell reads the report itself, because a process that it started for this could lose objects.
# With confirm=2 the kernel searches twice and reports the second search. A stale word that hides a
# lost object may disappear between the searches.
unreachable() {
  echo confirm=2 > '#mem/unreachable'
  echo "leaktest unreachable"
  while IFS= read -r line; do echo "$line"; done < '#mem/unreachable'
  echo "leaktest end"
}
reserve() {
  sleep 1000000 &
  reserve=$!
  (:)
}
# Ends a pass that has failed, perhaps for lack of memory. Kills the reserve, and prints the counts.
give_up() {
  kill -9 $reserve
  echo settle > "$ctl"
  counts
  exit 3
}

# --- The command.

note_running() {
  known=" "
  for process in /proc/[0-9]*; do known="$known$process "; done
}
find_left() {
  left=
  for process in /proc/[0-9]*; do
    case "$known" in *" $process "*) ;; *) left="$left $process" ;; esac
  done
}
end_left() {
  name=yes rounds=0
  find_left
  while [ "$left" ]; do
    [ $rounds -ge 50 ] && { echo "leaktest immortal$left"; return; }
    for process in $left; do
      if [ "$name" ] && IFS= read -r line < $process/stat; then
        line=${line#*(} state=${line##*) }
        case "$state" in Z*) ;; *) [ "$quiet" ] || echo "leaktest left ${line%)*}" ;; esac
      fi
      kill -9 ${process#/proc/}
    done 2> /dev/null
    name= rounds=$((rounds + 1))
    echo settle > "$ctl" 2> /dev/null
    find_left
  done
}
# Sets `now` to the time in hundredths of a second.
now() {
  read -r up up_rest < /proc/uptime
  now=$((${up%.*} * 100 + 1${up#*.} - 100))
}
# Runs the command. Prints its exit status and the time that it took. Afterwards, `now` is the time.
run() {
  now
  started=$now
  if [ "$quiet" ]; then
    sh -c "$command" > /dev/null 2>&1
  else
    sh -c "$command" >&2
  fi
  status=$?
  end_left
  now
  echo "leaktest run $status $((now - started))"
}

# --- Untraced passes. Times are hundredths of a second.

free() { { read -r key free; read -r key free; read -r key free; } < '#mem/free'; }
# Waits until the caches stop changing, empties them, and prints the time and the live counts.
# $1: the number of runs so far.
look() {
  resting=1
  rest
  echo reap > "$ctl"
  now
  echo "leaktest look $1 $now $resting"
  counts
}
# Runs the command once and calls `look`. Then runs the command about $1 times in eight parts,
# called eighths, and calls `look` after each eighth. An eighth ends when it has made $1 / 8 runs
# and has lasted at least $2. An eighth that has lasted $3 ends with the current run, even if it has
# made fewer runs. After the fifth and each later eighth, the pass ends if its eighths have lasted
# eight times $3 in total. The pass also ends after the current run if half of the memory that was
# free before the first eighth is used up.
untraced_runs() {
  note_running
  unreachable
  run
  look 0
  free
  enough=$((free / 2)) total=0 eighth=0 begun=$now low=
  while [ $eighth -lt 8 ]; do
    eighth=$((eighth + 1)) runs=0
    now
    from=$now
    while :; do
      run
      runs=$((runs + 1))
      free
      [ $free -lt $enough ] && { low=yes; break; }
      [ $((now - from)) -ge $3 ] && break
      [ $runs -ge $(($1 / 8)) ] && [ $((now - from)) -ge $2 ] && break
    done
    total=$((total + runs))
    look $total
    if [ "$low" ]; then
      echo "leaktest low $total"
      break
    fi
    if [ $eighth -ge 5 ] && [ $((now - begun)) -ge $((8 * $3)) ]; then break; fi
  done
  unreachable
}
# Runs the command once and calls `look`. Then calls `look` eight more times, every $1 seconds,
# without running the command.
idle_looks() {
  note_running
  run
  look 0
  eighth=0
  while [ $eighth -lt 8 ]; do
    eighth=$((eighth + 1))
    sleep "$1"
    look $eighth
  done
}
quietly() {
  quiet=yes
  reserve
  ("$@") || give_up
  kill -9 $reserve
}
untraced_pass() { quietly untraced_runs "$@"; }
idle_pass() { quietly idle_looks "$@"; }

# --- The pass for what keeps objects.

# Runs the command once untraced; then $1 times and again $1 times traced, with a mark after each
# run. The host reads memory after each $1 runs.
kept_runs() {
  note_running
  run
  echo settle > "$ctl" 2> /dev/null
  step start
  step refs
  for half in first second; do
    runs=0
    while [ $runs -lt "$1" ]; do
      run
      step mark
      runs=$((runs + 1))
    done
    rest
    echo pause > '#debug/ctl'
  done
}
kept_pass() { quietly kept_runs "$@"; }

# --- The traced pass.

# Runs the command once untraced; then $1 times traced, with a mark after each run but the last.
# Ends earlier if the traced runs have taken $2 seconds, and the command has run $3 times in the
# trace. Traces start with the options $4. This shell also stops the trace, because what a shell's
# own redirections put into the trace disappears when the shell ends.
traced_runs() {
  note_running
  run
  echo settle > "$ctl" 2> /dev/null
  unreachable
  step "start${4:+ $4}"
  step refs
  dump || exit 3
  now
  begun=$now runs=1
  while :; do
    run
    [ $runs -ge "$1" ] && break
    [ $runs -ge "$3" ] && [ $((now - begun)) -ge "$2"00 ] && break
    runs=$((runs + 1))
    step mark
  done
  echo "leaktest runs $runs"
  come_to_rest
  step stop
}
come_to_rest() {
  resting=1
  rest
  echo "leaktest settled $resting"
}
traced_pass() {
  quiet=
  reserve
  rest
  step stop
  counts
  (traced_runs "$@") || give_up
  come_to_rest
  unreachable
  counts
  dump || give_up
  references
  step reset
  kill -9 $reserve
}
