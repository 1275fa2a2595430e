#ifndef _STELE_SPAWN_H
#define _STELE_SPAWN_H
#include_next <spawn.h>

#define POSIX_SPAWN_SETSID 0x80

__BEGIN_DECLS
int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t* __restrict,
                                      const char* __restrict);
int posix_spawn_file_actions_addfchdir(posix_spawn_file_actions_t*, int);
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* __restrict,
                                         const char* __restrict);
int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t*, int);
__END_DECLS
#endif
