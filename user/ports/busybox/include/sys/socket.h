/* There is no network. busybox's headers need these types, and its library calls these functions,
 * which nothing defines. None of our applets uses them: the linker leaves out the functions that
 * do. */
#ifndef _SYS_SOCKET_H
#define _SYS_SOCKET_H
#include <sys/types.h>

typedef unsigned socklen_t;
typedef unsigned short sa_family_t;
struct sockaddr {
  sa_family_t sa_family;
  char sa_data[14];
};
#define AF_UNSPEC 0
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_RAW 3
#define SOCK_RDM 4
#define SOCK_SEQPACKET 5

int socket(int domain, int type, int protocol);
int bind(int socket, const struct sockaddr* address, socklen_t length);
int listen(int socket, int backlog);
ssize_t sendto(int socket, const void* data, size_t size, int flags, const struct sockaddr* to,
               socklen_t length);
int getsockname(int socket, struct sockaddr* address, socklen_t* length);

/* Nor is there a chroot. */
int chroot(const char* path);
#endif
