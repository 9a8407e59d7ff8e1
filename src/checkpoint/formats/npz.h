#pragma once
// NumPy's .npz files: a zip archive of .npy arrays (numpy.lib.format, versions 1 to 3), as big_vision writes its checkpoints.
//
// A file is input from outside: lengths are checked before memory is taken for them, and every mistake is a data error that
// names the file and the array.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "store/encoding/zip_archive.h"

namespace tessera::checkpoint {

// Row-major, little-endian, `data.size() == byte_count(type)`.
struct NpzArray {
  std::string name;  // without ".npy"
  TensorType type;
  std::vector<std::byte> data;
};

// A file's arrays by their headers; elements are unpacked on request, as many as a header says. Those whose names begin with
// the first of `prefixes` with which any does, under what follows it, in the order of the file. When no name begins so, the
// error lists what names begin with. Elements of two opaque bytes (|V2) are bf16, which is how NumPy stores ml_dtypes' type.
class NpzFile {
 public:
  explicit NpzFile(const std::string& path, const std::vector<std::string>& prefixes = {""});

  struct Entry {
    std::string name;  // without ".npy"
    TensorType type;
    uint64_t index;  // in the archive
  };
  const std::vector<Entry>& entries() const { return entries_; }
  // Arrays in Fortran's order are put into C's.
  NpzArray read(const Entry& entry) const;

 private:
  std::string path_;
  store::ZipArchive archive_;
  std::vector<Entry> entries_;
};

// All of them.
std::vector<NpzArray> read_npz(const std::string& path, const std::vector<std::string>& prefixes = {""});

// Writes the arrays as numpy.savez does, stored, one .npy each; the same bytes for the same arrays. The file is there whole or
// not at all. Arrays of bf16 are |V2, as above. Throws store::IoError.
void write_npz(const std::string& path, const std::vector<NpzArray>& arrays);

// One .npy file in memory; `where` is for messages.
NpzArray parse_npy(std::string name, std::vector<std::byte> file, const std::string& where);

}  // namespace tessera::checkpoint
