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
// Copies the name, without a NUL, and in `named_at` when it led here. Returns its length, 0 if
// there is none. Any task; the channel may be shared.
size_t chan_copy_path(const Chan& chan, char (&name)[kMaxPath], uint64_t& named_at);
// Keeps the name `path`, which was valid when `named_at` directories had been renamed, unless a
// later one is known or memory is out. The channel may be shared. May sleep.
void chan_keep_path(Chan& chan, std::string_view path, uint64_t named_at);
// Ends the use of file_use_begin, if any.
void file_use_end(Chan& chan);
// A directory has been renamed: names of files below it may be stale.
void directory_renamed();
