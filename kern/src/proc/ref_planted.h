// References that are held forever, planted in chdir and in reading arguments (core/planted.h).
#pragma once

#include "proc/process_impl.h"

#ifdef CONFIG_PLANTED_BUGS
// Called when the process has changed its directory. The bug ref_list puts the directory into a
// list that is never emptied; ref_timer holds it for a timer that expires in a day; ref_immortal
// takes another reference to the namespace, which lives as long as the system; with ref_task, a
// task holds the directory on its stack and waits forever. May sleep.
void planted_directory_changed(const Process& process);
// Called when the arguments of a process are being read in its memory. The bug ref_static holds the
// address space in a table of fixed size, until the table is full.
void planted_space_read(const Ref<AddressSpace>& space);
#else
inline void planted_directory_changed(const Process&) {}
inline void planted_space_read(const Ref<AddressSpace>&) {}
#endif
