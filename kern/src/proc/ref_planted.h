// References that are kept forever, planted in chdir and in reading arguments (core/planted.h).
#pragma once

#include "proc/process_impl.h"

#ifdef CONFIG_PLANTED_BUGS
// The process has changed its directory. The bugs ref_list: puts the directory into a list that is
// never emptied; ref_timer: keeps it for a timer that expires in a day; ref_immortal: takes another
// reference to the namespace, which lives anyway; ref_task: a task keeps the directory on its stack
// and waits forever. May sleep.
void planted_directory_changed(const Process& process);
// The arguments of a process are being read in its memory. The bug ref_static: keeps the address
// space in a table of fixed size, while it has room.
void planted_space_read(const Ref<AddressSpace>& space);
#else
inline void planted_directory_changed(const Process&) {}
inline void planted_space_read(const Ref<AddressSpace>&) {}
#endif
