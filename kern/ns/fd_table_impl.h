#pragma once

// Creates the cache of descriptor tables. Once, at boot.
void fd_table_init();
