// kmemtop: the kernel's caches, arenas and references as they change, in a table.
//
// At every interval kmemtop reads #mem/kmemstat, which all users may read, and compares it with the
// history of each source (sources.h). It shows the growth of live objects per second, and since the
// start. On a terminal the table is live (screen.h): it can be sorted, filtered and scrolled; the
// trace of the source under the cursor can be started and stopped, and its top stacks shown
// (stacks.h). Only terminal.cc uses ncurses. With -b the tables go to standard output, one after
// the other (batch.h).
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
