// Functions on channels for the files of the namespace.
#pragma once

#include <string_view>

#include "ns/device.h"
#include "ns/namespace.h"

// Creates the cache of channels. Once, at boot.
void chan_init();
// Sets the channel's path to a copy of `path` ("": none). The caller has the only reference.
// ENOMEM. May sleep.
Result<void> chan_set_path(Chan& chan, std::string_view path);
// Copies the channel's name to `name`, without a NUL, and sets `named_at` to the number of
// directory renames that had been counted when the name was valid. Returns the name's length, 0 if
// there is none. Any task; the channel may be shared.
size_t chan_copy_path(const Chan& chan, char (&name)[kMaxPath], uint64_t& named_at);
// Sets the channel's name to `path`, which was valid when `named_at` directory renames had been
// counted. Does nothing if Chan::named_at is not less than `named_at`, or if there is no memory.
// The channel may be shared. May sleep.
void chan_keep_path(Chan& chan, std::string_view path, uint64_t named_at);
// Ends the use of the file that file_use_begin registered for the channel, if any.
void file_use_end(Chan& chan);
// Counts the rename of a directory: names of files below the directory may be stale.
void directory_renamed();
