/* Replaces the file that dash's build generates, which has the signals of the
 * build machine. */
#include <abi/syscall.h>
#include <signal.h>

#define NAME(name, number) [number] = #name,
const char* const signal_names[NSIG + 1] = {
    [0 ... NSIG - 1] = "?", [0] = "EXIT", ABI_SIGNALS(NAME)};
