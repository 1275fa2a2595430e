// What the parts of the name space share about channels.
#pragma once

#include <string_view>

#include "ns/device.h"

// The cache of channels. Once, at boot.
void chan_init();
// Gives `chan` a copy of `path` ("": none) in place of what it had. ENOMEM. May sleep.
Result<void> chan_set_path(Chan& chan, std::string_view path);
// Ends what file_use_begin began, if it did.
void file_use_end(Chan& chan);
// A directory has been renamed: names of what is below it are not to be trusted any more.
void directory_renamed();
