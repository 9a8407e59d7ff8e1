#pragma once
// Zip archives of arrays, for reading: NumPy's and torch's files.
//
// A file is input from outside: lengths are checked before memory is taken for them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct zip;

namespace tessera::checkpoint {

class ZipArchive {
 public:
  // `what`: what it should be, for messages: ".npz file". All errors are data Errors that name the file.
  ZipArchive(const std::string& path, const std::string& what);

  uint64_t size() const;  // entries
  std::string name(uint64_t index) const;
  std::optional<uint64_t> find(const std::string& name) const;
  // Throws where the entries claim more than a file of weights unpacks to, one by one or together.
  void check_sizes(const std::vector<uint64_t>& entries) const;
  // Bytes that it unpacks to.
  uint64_t unpacked_size(uint64_t index) const;
  // Unpacked; the checksum is compared.
  std::vector<std::byte> bytes(uint64_t index) const;

  // What a file of so many bytes may unpack to altogether. Weights hardly pack.
  uint64_t most_bytes() const;

 private:
  struct Sizes {
    uint64_t packed = 0, unpacked = 0;
  };
  Sizes sizes(uint64_t index) const;

  struct Closer {
    void operator()(zip* archive) const;
  };
  std::string path_;
  std::unique_ptr<zip, Closer> archive_;
  uint64_t file_size_ = 0;
};

}  // namespace tessera::checkpoint
