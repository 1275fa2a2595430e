#ifndef _SYS_SYSMACROS_H
#define _SYS_SYSMACROS_H
/* A device number is a device's type and instance; major and minor are its halves. */
#define major(device) ((unsigned)((device) >> 32))
#define minor(device) ((unsigned)(device))
#define makedev(high, low) ((unsigned long)(high) << 32 | (unsigned)(low))
#endif
