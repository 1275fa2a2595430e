// Planted bugs, on the host: asleep until a test wakes one.
#pragma once

#include "core/planted.h"

void wake(Planted bug);
