/* For fma. */
#define a_clz_64 __builtin_clzll
