/* For getopt: there are no translations. */
#define __lctrans_cur(message) (message)
