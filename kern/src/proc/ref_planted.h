// References that are kept for good, planted in chdir and in reading arguments (core/planted.h).
#pragma once

#include "proc/process_impl.h"

#ifdef CONFIG_PLANTED_BUGS
// The process has changed its directory. The bugs ref_list: the directory is put into a list that
// nobody empties; ref_timer: it waits for a timer that is a day away; ref_immortal: the namespace,
// which stays anyway, is referred to once more; ref_task: a task keeps the directory on its stack
// and waits for good. May sleep.
void planted_directory_changed(const Process& process);
// The arguments of a process are read in its memory. The bug ref_static: the address space stays in
// a table of those that were last read, as long as that has room.
void planted_space_read(const Ref<AddressSpace>& space);
#else
inline void planted_directory_changed(const Process&) {}
inline void planted_space_read(const Ref<AddressSpace>&) {}
#endif
