/* newlib's generic types, with four exceptions: device numbers, inode numbers, user ids and group
 * ids have the width of the kernel's. */
#ifndef _MACHINE__TYPES_H
#define _MACHINE__TYPES_H
#include <machine/_default_types.h>

#define __machine_dev_t_defined
typedef unsigned long __dev_t;
#define __machine_ino_t_defined
typedef unsigned long __ino_t;
#define __machine_uid_t_defined
typedef unsigned int __uid_t;
#define __machine_gid_t_defined
typedef unsigned int __gid_t;
#endif
