#pragma once
// NumPy's .npz files: a zip archive of .npy arrays (numpy.lib.format, versions 1 to 3), as big_vision writes its checkpoints.
//
// A file is input from outside: lengths are checked before memory is taken for them, and every mistake is a data error that
// names the file and the array.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace tessera::checkpoint {

// Row-major, little-endian, `data.size() == byte_count(type)`.
struct NpzArray {
  std::string name;  // without ".npy"
  TensorType type;
  std::vector<std::byte> data;
};

// The arrays whose names begin with the first of `prefixes` with which any does, under what follows it, in the order of the
// file. Arrays in Fortran's order are put into C's; elements of two opaque bytes (|V2) are bf16, which is how NumPy stores
// ml_dtypes' type. When no name begins so, the error lists what names begin with.
std::vector<NpzArray> read_npz(const std::string& path, const std::vector<std::string>& prefixes = {""});

// Writes the arrays as numpy.savez does, stored, one .npy each; the same bytes for the same arrays. The file is there whole or
// not at all. Arrays of bf16 are |V2, as above. Throws store::IoError.
void write_npz(const std::string& path, const std::vector<NpzArray>& arrays);

// One .npy file in memory; `where` is for messages.
NpzArray parse_npy(std::string name, std::vector<std::byte> file, const std::string& where);

}  // namespace tessera::checkpoint
