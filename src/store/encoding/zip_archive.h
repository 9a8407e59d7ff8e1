#pragma once
// Zip archives, for reading (libzip): NumPy's and torch's files, wheels, photographs.
//
// A file is input from outside: lengths are checked before memory is taken for them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct zip;

namespace tessera::store {

// For one thread.
class ZipArchive {
 public:
  // `what`: what it should be, for messages: "an .npz file". `entry`: what its entries are: "array". All errors are data Errors that
  // name the file.
  ZipArchive(const std::string& path, const std::string& what, std::string entry = "entry");

  uint64_t size() const;  // entries
  std::string name(uint64_t index) const;
  std::optional<uint64_t> find(const std::string& name) const;
  // Throws where the entries claim more than a file of images or weights unpacks to, one by one or together.
  void check_sizes(const std::vector<uint64_t>& entries) const;
  // Bytes that it unpacks to.
  uint64_t unpacked_size(uint64_t index) const;
  // Whether it is a plain file: no directory, and no symbolic link or device of Unix's.
  bool regular(uint64_t index) const;
  // Whether its bytes may be executed, as Unix's programs say.
  bool executable(uint64_t index) const;
  // Unpacked; the checksum is compared.
  std::vector<std::byte> bytes(uint64_t index) const;
  // The first `most` of them, or all; the checksum is not compared.
  std::vector<std::byte> head(uint64_t index, size_t most) const;
  // All in parts, in order.
  void read(uint64_t index, const std::function<void(std::span<const std::byte>)>& take) const;

  // What a file of so many bytes may unpack to altogether. Weights hardly pack.
  uint64_t most_bytes() const;

 private:
  struct Sizes {
    uint64_t packed = 0, unpacked = 0;
  };
  Sizes sizes(uint64_t index) const;
  // Type and permissions as Unix has them; 0 where another system wrote it.
  uint32_t unix_mode(uint64_t index) const;
  [[noreturn]] void fail(uint64_t index, const std::string& what) const;

  class Reader;

  struct Closer {
    void operator()(zip* archive) const;
  };
  std::string path_, entry_;
  std::unique_ptr<zip, Closer> archive_;
  uint64_t file_size_ = 0;
};

}  // namespace tessera::store
