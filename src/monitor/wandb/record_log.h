#pragma once
// The file of a W&B run, run-<id>.wandb, as wandb/sdk/internal/datastore.py (wandb 0.26) and wandb-core read it: a header of 7
// bytes, then records in LevelDB's log format (https://github.com/google/leveldb/blob/main/doc/log_format.md) in blocks of 32 KiB,
// the header counting as part of the first block. The checksum is zlib's CRC-32 of type and data, and not LevelDB's masked
// CRC-32C.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::monitor {

// What the file begins with.
std::string record_log_header();
// Appends `record` to `out`, as it stands `offset` bytes from the beginning of the file.
void add_log_record(std::string& out, int64_t offset, std::string_view record);
// The records of a file, one after the other.
class RecordLogReader {
 public:
  explicit RecordLogReader(std::string_view file);
  // Nothing after the last record, and from the first that is cut off or damaged on; always for a file that does not begin as one
  // of these does.
  std::optional<std::string> next();

 private:
  struct Fragment {
    int type = 0;
    std::string_view data;
  };
  std::optional<Fragment> next_part();

  std::string_view file_;
  size_t at_ = 0;
};

}  // namespace tessera::monitor
