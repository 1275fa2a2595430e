#include <sys/features.h>
