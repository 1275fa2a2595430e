"""gdb's side of Stele: reads the kernel's memory, of a running guest or of a core.
docs/debugging.md is for users.

`commands` are gdb's commands. Each makes a Kernel (memory.py), a view of memory, for its own
duration. Types and fields come from the debugging information. The files:

    memory     reads memory, and decodes it by type
    symbols    the kernel's own table of symbols
    caches     caches and their slabs, magazines, depots
    arenas     arenas and their segments
    tasks      tasks, CPUs, stacks and backtraces
    traces     records, stacks and contexts of traces
    dump_text  the text of a dump; sampling: the estimates from a sampled trace
    kmemstat   the table of caches and arenas
    source     code addresses with files and lines
    whatis     explains an address
    memory_map live objects and roots, for build/tools/stele-reach
    reach      asks that program, which searches all of memory
    typed      names of objects, fields and variables
    unreachable, refs, alive   unreachable objects; locations of references; pointers to an object, and the path to it
    ref_classes                classes of references

A word of memory is an int here, not a gdb.Value: every use of a gdb.Value is a call into gdb.
"""
