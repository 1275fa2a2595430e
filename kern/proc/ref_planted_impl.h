// Planted bugs (core/planted.h) that hold references forever. The bugs are planted in chdir and
// in the code that reads the arguments of a process.
#pragma once

#include "proc/process_impl.h"

#ifdef CONFIG_PLANTED_BUGS
// Called when the process has changed its directory. May sleep. The bugs:
// - ref_list: a list that is never emptied holds the directory.
// - ref_timer: the argument of a timer that expires in a day holds the directory.
// - ref_immortal: an additional reference to the namespace is never dropped.
// - ref_task: a task that waits forever holds the directory on its stack.
void planted_directory_changed(const Process& process);
// Called when the arguments of a process are being read in its memory. The bug ref_static stores a
// reference to the address space in a static table, if the table is not full.
void planted_space_read(const Ref<AddressSpace>& space);
#else
inline void planted_directory_changed(const Process&) {}
inline void planted_space_read(const Ref<AddressSpace>&) {}
#endif
