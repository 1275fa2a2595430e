// What the parts of the name space share about channels.
#pragma once

#include <string_view>

#include "ns/device.h"
#include "ns/namespace.h"

// The cache of channels. Once, at boot.
void chan_init();
// Gives `chan` a copy of `path` ("": none) in place of what it had. Nobody else has the
// channel. ENOMEM. May sleep.
Result<void> chan_set_path(Chan& chan, std::string_view path);
// The name, without a NUL, and in `named_at` when it led here; its length, 0 if there is none. Of a
// channel that others may have too: any task.
size_t chan_copy_path(const Chan& chan, char (&name)[kMaxPath], uint64_t& named_at);
// The same channel had the name `path` when `named_at` directories had been renamed: keeps it
// unless a later one is known or memory is out. May sleep.
void chan_keep_path(Chan& chan, std::string_view path, uint64_t named_at);
// Ends what file_use_begin began, if it did.
void file_use_end(Chan& chan);
// A directory has been renamed: names of what is below it are not to be trusted any more.
void directory_renamed();
