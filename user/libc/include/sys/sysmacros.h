#ifndef _SYS_SYSMACROS_H
#define _SYS_SYSMACROS_H
/* A device number has the kernel's device type in its high half (major) and the number of the
 * device's instance in its low half (minor). */
#define major(device) ((unsigned)((device) >> 32))
#define minor(device) ((unsigned)(device))
#define makedev(high, low) ((unsigned long)(high) << 32 | (unsigned)(low))
#endif
