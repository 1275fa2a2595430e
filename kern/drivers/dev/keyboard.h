// The PC's keyboard.
#pragma once

#include <cstdint>

// Starts the keyboard: from now on `take` is called in interrupt context for each byte that is
// typed (keyboard_keys.h). False if the machine has no keyboard controller, or if the interrupt
// cannot be registered. Takes up to a tenth of a second if the controller does not answer.
bool keyboard_listen(void (*take)(uint8_t byte));
