#include <netinet/in.h>

struct hostent* gethostbyname(const char* name);
