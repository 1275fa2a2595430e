/* In place of what dash generates by a program of the build machine, with that
 * machine's signals. */
#include <abi/syscall.h>
#include <signal.h>

#define NAME(name, number) [number] = #name,
const char* const signal_names[NSIG + 1] = {
    [0 ... NSIG - 1] = "?", [0] = "EXIT", ABI_SIGNALS(NAME)};
