#include <sys/ucontext.h>
