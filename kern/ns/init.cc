#include "ns/chan_impl.h"
#include "ns/fd_table_impl.h"
#include "ns/file_lock.h"
#include "ns/mount_impl.h"
#include "ns/page_cache.h"
#include "ns/path_buffer.h"

void ns_init() {
  chan_init();
  path_buffers_init();
  mount_init();
  fd_table_init();
  file_lock_init();
  page_cache_init();
}
