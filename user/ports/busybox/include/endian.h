#ifndef _ENDIAN_H
#define _ENDIAN_H
#include <machine/endian.h>
#endif
