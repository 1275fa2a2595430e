// Functions on channels for the files of the namespace.
#pragma once

#include <string_view>

#include "ns/device.h"
#include "ns/namespace.h"

// Creates the cache of channels. Once, at boot.
void chan_init();
// Sets the channel's path to a copy of `path`; an empty `path` removes it. The caller has the only
// reference. Fails with ENOMEM. May sleep.
Result<void> chan_set_path(Chan& chan, std::string_view path);
// Sets the channel's name to `path`. The name was valid after `named_at` directory renames. Does
// nothing if Chan::named_at is already `named_at` or more, or if there is no memory. The channel
// may be shared. May sleep.
void chan_keep_path(Chan& chan, std::string_view path, uint64_t named_at);
// Ends the use of the file that file_use_begin registered for the channel, if any.
void file_use_end(Chan& chan);
// Counts the rename of a directory: names of files below the directory may be stale.
void directory_renamed();
