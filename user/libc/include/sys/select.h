/* An fd_set holds as many descriptors as a process can have (OPEN_MAX). */
#ifndef FD_SETSIZE
#define FD_SETSIZE 256
#endif
#include_next <sys/select.h>
