// Planted bugs on the host. A test turns a bug on with wake().
#pragma once

#include "core/planted.h"

void wake(Planted bug);
