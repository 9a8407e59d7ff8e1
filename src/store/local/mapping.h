#pragma once
// Files mapped into memory. A page may turn out to be unreadable when it is touched: the disk has a bad sector, the file was
// cut short meanwhile, or its file system went away. The system then sends SIGBUS. Here the page reads as zeros and the mapping
// remembers that. After using the bytes, call Bytes::check(): it throws the IoError that read() would have thrown.

#include <cstdint>
#include <string>

#include "store/encoding/bytes.h"

namespace tessera::store {

// A read-only view of the first `size` bytes of an open file; the descriptor may be closed afterwards. Small files are read at
// once instead. `path` is for messages. From the first call on, this process answers SIGBUS within its mappings; any other
// SIGBUS does what it did before. Throws as fail_reading() does.
Bytes map_descriptor(int descriptor, int64_t size, const std::string& path);

}  // namespace tessera::store
