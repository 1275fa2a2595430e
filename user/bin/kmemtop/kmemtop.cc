// kmemtop: shows the kernel's caches, arenas and references in a table, as they change.
//
// At every interval kmemtop reads #mem/kmemstat, which all users may read, and compares the counts
// with the history of each source (sources.h). It shows the growth of live objects per second, and
// the growth since the start.
//
// On a terminal, the user can sort, filter and scroll the table (screen.h). The user can also start
// and stop the trace of the source under the cursor, and look at the top stacks of this trace
// (stacks.h). Only terminal.cc uses ncurses. With -b, kmemtop prints one table after the other to
// standard output (batch.h).
//
// Traces that kmemtop starts continue after kmemtop has ended: they belong to the kernel, and may
// be needed later.
//
// kmemtop's memory does not grow: it holds a ring of counts for each source, and the beginning of
// one dump (stacks.h).
#include <exception>
#include <iostream>

#include "arguments.h"
#include "batch.h"
#include "screen.h"

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    if (arguments.batch)
      run_batch(arguments);
    else
      run_screen(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "kmemtop: " << error.what() << '\n';
    return 2;
  }
}
