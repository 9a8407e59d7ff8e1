#pragma once
// The arrays of a checkpoint, put together from the pieces that its files hold.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/box.h"
#include "base/shape.h"
#include "checkpoint/formats/safetensors.h"
#include "store/encoding/bytes.h"

namespace tessera::checkpoint {

// A part of an array as a file holds it, row-major and dense. The memory is borrowed.
struct StoredPiece {
  Placed place;
  std::span<const std::byte> data;
};

// An array whose pieces are disjoint and cover it. The memory is that of the files the pieces lie in: as long as those live,
// any number of threads may read.
struct StoredArray {
  std::string name;
  TensorType type;  // of the whole array
  std::vector<StoredPiece> pieces;

  // Copies a box that lies inside the array to `out`, row-major and dense. It is our own bug to read from a piece without data,
  // which is in a file whose header alone was read.
  void read(const Placed& box, std::byte* out) const;
  // The whole array without copying, where one piece is all of it.
  std::optional<TensorView> whole() const;
};

using StoredArrays = std::map<std::string, StoredArray, std::less<>>;

// Adds one piece of an array of type `type`; what `place.dims` ask for is the size of `data`. Gives what is wrong: another
// piece has another type, or the array is there already and one of the two is all of it.
std::optional<std::string> add_piece(StoredArrays& arrays, const std::string& name, const TensorType& type, StoredPiece piece);

struct ArrayError {
  std::string name;
  std::string what;
};
// When every piece was added: drops those without elements; gives the first array, by name, that its pieces don't tile.
std::optional<ArrayError> finish_pieces(StoredArrays& arrays);

// The arrays of a checkpoint's state files. Without `sliced` (format version 1) every entry is an array of its own, whatever
// its name. With it, entries "<name>@<offsets>" are slices of the array that the file's metadata gives the shape of. Throws a
// data error that names the file or, for an array that is not whole, `path`. The arrays borrow the files' memory.
StoredArrays collect_arrays(const std::vector<SafetensorsFile>& files, bool sliced, const std::string& path);

// The pieces of one of the files, with the names of their arrays; as collect_arrays() reads them.
struct NamedPlace {
  std::string array;
  Placed place;
};
std::vector<NamedPlace> places_in(const SafetensorsFile& file, bool sliced);

// Whole arrays of those whose names begin with `prefix`, in the order of their names, under what follows it.
struct WholeArrays {
  std::vector<TensorView> views;        // of the files' memory, or of:
  std::vector<store::Bytes> assembled;  // those that lie in several pieces
};
WholeArrays whole_arrays(const StoredArrays& arrays, std::string_view prefix = {});
// One of them; the bytes own their memory where they had to be put together, and borrow the file's else.
store::Bytes whole_bytes(const StoredArray& array);

}  // namespace tessera::checkpoint
