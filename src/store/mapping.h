#pragma once
// Files mapped into memory, of which a page may turn out to be unreadable when it is touched: a bad sector, a file that was cut
// short meanwhile, a file system that went away. The system then sends SIGBUS. Here such a page reads as zeros, and the mapping
// remembers it: whoever used the bytes asks Bytes::check() and gets the IoError that read() would have thrown.

#include <cstdint>
#include <string>

#include "store/bytes.h"

namespace tessera::store {

// A read-only view of the first `size` bytes of an open file; the descriptor may be closed afterwards. Small files are read at
// once instead. `path` is for messages. From the first call on, this process answers SIGBUS within its mappings; any other
// SIGBUS does what it did before. Throws IoError.
Bytes map_descriptor(int descriptor, int64_t size, const std::string& path);

}  // namespace tessera::store
