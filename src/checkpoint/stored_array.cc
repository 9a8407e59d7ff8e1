#include "checkpoint/stored_array.h"

#include <set>
#include <utility>

#include "base/error.h"
#include "checkpoint/slices.h"
#include "checkpoint/tiling.h"

namespace tessera::checkpoint {
namespace {

// One entry of a file, as a piece of an array.
struct Entry {
  std::string array;
  TensorType type;  // of the whole array
  Placed place;
};

// True when dtype and shape ask for a number of bytes that fits.
bool fits(const TensorType& type) {
  int64_t bytes = element_bytes(type.dtype);
  for (const int64_t dim : type.dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return false;
  }
  return true;
}

// The entries of one file, and whether each array that it names in its metadata is really sliced there.
class EntryReader {
 public:
  EntryReader(const SafetensorsFile& file, bool sliced) : path_(file.path()), sliced_(sliced) {
    const auto text = file.metadata().find(kShapesKey);
    if (sliced && text != file.metadata().end()) shapes_ = parse_shapes(text->second, path_);
  }

  Entry read(const TensorView& tensor) {
    if (sliced_ && tensor.name.find(kSliceMark) != std::string::npos) return read_slice(tensor);
    if (shapes_.contains(tensor.name)) fail(tensor.name, "the metadata say that it is sliced, but it is not");
    return {tensor.name, tensor.type, whole_box(tensor.type.dims)};
  }

  void finish() const {
    for (const auto& [name, unused] : shapes_) {
      if (!used_.contains(name)) fail(name, "the metadata give its shape, but the file has no slice of it");
    }
  }

 private:
  Entry read_slice(const TensorView& tensor) {
    auto name = parse_slice_name(tensor.name);
    if (!name) fail(tensor.name, "what follows `@` in its name is not an offset");
    const auto shape = shapes_.find(name->array);
    if (shape == shapes_.end()) fail(tensor.name, "the metadata lack the shape of the whole array");
    used_.insert(name->array);
    const TensorType type{tensor.type.dtype, shape->second};
    if (!fits(type)) fail(tensor.name, fmt::format("the shape {} is too large", to_string(type.dims)));
    return {std::move(name->array), type, {tensor.type.dims, std::move(name->offset)}};
  }

  [[noreturn]] void fail(const std::string& array, const std::string& what) const {
    throw data_error(fmt::format("`{}` is damaged: {}", path_, what), fmt::format("array `{}`", array));
  }

  const std::string& path_;
  bool sliced_;
  Shapes shapes_;
  std::set<std::string> used_;
};

std::vector<Placed> places(const StoredArray& array) {
  std::vector<Placed> all;
  for (const StoredPiece& piece : array.pieces) all.push_back(piece.place);
  return all;
}

}  // namespace

void StoredArray::read(const Placed& box, std::byte* out) const {
  int64_t copied = 0;
  for (const StoredPiece& piece : pieces) {
    if (piece.data.empty()) continue;
    copied += copy_common(piece.place, piece.data.data(), box, out, element_bytes(type.dtype));
  }
  TESSERA_CHECK(copied == element_count(box.dims), "{} at {} of `{}`, {}", to_string(box.dims), to_string(box.offset), name,
                to_string(type));
}

std::optional<TensorView> StoredArray::whole() const {
  if (pieces.size() == 1 && pieces[0].place.dims == type.dims) return TensorView{name, type, pieces[0].data};
  if (byte_count(type) == 0) return TensorView{name, type, {}};
  return std::nullopt;
}

std::optional<std::string> add_piece(StoredArrays& arrays, const std::string& name, const TensorType& type, StoredPiece piece) {
  StoredArray& array = arrays[name];
  if (array.pieces.empty()) {
    array.name = name, array.type = type;
  } else if (array.type != type) {
    return fmt::format("it is a piece of {}, another one of {}", to_string(type), to_string(array.type));
  } else if (piece.place.dims == type.dims || array.pieces[0].place.dims == type.dims) {
    return "it is there twice";
  }
  array.pieces.push_back(std::move(piece));
  return std::nullopt;
}

std::optional<ArrayError> finish_pieces(StoredArrays& arrays) {
  for (auto& [name, array] : arrays) {
    if (auto error = tiling_error(array.type.dims, places(array))) return ArrayError{name, *std::move(error)};
    std::erase_if(array.pieces, [](const StoredPiece& piece) { return element_count(piece.place.dims) == 0; });
  }
  return std::nullopt;
}

StoredArrays collect_arrays(const std::vector<SafetensorsFile>& files, bool sliced, const std::string& path) {
  StoredArrays arrays;
  const auto damaged = [](const std::string& where, const std::string& what, const std::string& name) {
    return data_error(fmt::format("`{}` is damaged: {}", where, what), fmt::format("array `{}`", name));
  };
  for (const SafetensorsFile& file : files) {
    EntryReader reader(file, sliced);
    for (const TensorView& tensor : file.tensors()) {
      Entry entry = reader.read(tensor);
      const auto error = add_piece(arrays, entry.array, entry.type, {std::move(entry.place), tensor.data});
      if (error) throw damaged(file.path(), *error, tensor.name);
    }
    reader.finish();
  }
  if (const auto error = finish_pieces(arrays)) throw damaged(path, error->what, error->name);
  return arrays;
}

std::vector<NamedPlace> places_in(const SafetensorsFile& file, bool sliced) {
  EntryReader reader(file, sliced);
  std::vector<NamedPlace> places;
  for (const TensorView& tensor : file.tensors()) {
    Entry entry = reader.read(tensor);
    places.push_back({std::move(entry.array), std::move(entry.place)});
  }
  return places;
}

store::Bytes whole_bytes(const StoredArray& array) {
  if (const auto view = array.whole()) return {nullptr, view->data};
  std::vector<std::byte> bytes(static_cast<size_t>(byte_count(array.type)));
  array.read(whole_box(array.type.dims), bytes.data());
  return store::own_bytes(std::move(bytes));
}

WholeArrays whole_arrays(const StoredArrays& arrays, std::string_view prefix) {
  WholeArrays whole;
  for (auto at = arrays.lower_bound(prefix); at != arrays.end() && at->first.starts_with(prefix); ++at) {
    store::Bytes bytes = whole_bytes(at->second);
    whole.views.push_back({at->first.substr(prefix.size()), at->second.type, bytes.data});
    if (bytes.owner) whole.assembled.push_back(std::move(bytes));
  }
  return whole;
}

}  // namespace tessera::checkpoint
