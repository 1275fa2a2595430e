// References that are kept for good, planted in chdir (core/planted.h).
#pragma once

#include "proc/process_impl.h"

#ifdef CONFIG_PLANTED_BUGS
// The process has changed its directory. The bugs ref_list: the directory is put into a list that
// nobody empties; ref_timer: it waits for a timer that is a day away; ref_immortal: the namespace,
// which stays anyway, is referred to once more. May sleep.
void planted_directory_changed(const Process& process);
#else
inline void planted_directory_changed(const Process&) {}
#endif
