#pragma once
// Bytes in memory, read as a file is.

#include <cstring>
#include <string_view>

#include "base/error.h"
#include "store/file.h"

namespace tessera::data {

class BytesFile final : public store::ReadableFile {
 public:
  // `bytes` must outlive this.
  explicit BytesFile(std::string_view bytes) : bytes_(bytes) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void read(int64_t offset, std::span<std::byte> out) const override {
    TESSERA_CHECK(offset >= 0 && offset <= size());
    if (out.size() > bytes_.size() - static_cast<size_t>(offset)) throw data_error("the bytes end too early");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }

 private:
  std::string_view bytes_;
};

}  // namespace tessera::data
