// Lets a test do something between two steps of a function that releases its lock between them.
#pragma once

// Makes the next unlock of a spinlock by this thread call the function, after the lock is free. The
// function can do what another CPU might do at that moment.
void at_next_unlock(void (*function)());
