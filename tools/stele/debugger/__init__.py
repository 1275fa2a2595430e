"""gdb's side of Stele: what the kernel's memory says, of a guest that runs and of a core. docs/debugging.md is for users.

`commands` are gdb's commands; each makes a Kernel (memory.py), a view of memory as it lies, and forgets it. Types and fields come from the
debugging information. Parts, each a file:

    memory     reads memory, and decodes it by type
    symbols    the kernel's own table of symbols
    caches     caches and their slabs, magazines, depots
    arenas     arenas and their segments
    tasks      tasks, CPUs, stacks and backtraces
    traces     records, stacks and contexts of traces
    dump_text  the text of a dump; sampling: what records of a sampled trace stand for
    kmemstat   the table of caches and arenas
    source     addresses of code with their places in the source
    whatis     what an address is
    memory_map where live objects and roots are, told to build/tools/stele-reach
    reach      asks that program, which looks through all of memory
    typed      names of objects, fields and variables
    unreachable, refs, alive   what nobody can reach; where references lie; what points to an object, and the path to it
    ref_classes                classes of references

A word of memory is an int here, not a gdb.Value, of which each is a call into gdb and back.
"""
