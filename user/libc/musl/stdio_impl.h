/* For getopt. */
#include <stdio.h>
#define FLOCK(stream) flockfile(stream)
#define FUNLOCK(stream) funlockfile(stream)

void __getopt_msg(const char*, const char*, const char*, size_t);
