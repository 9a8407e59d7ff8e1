#include "interop/array_layouts.h"

#include "base/error.h"

namespace tessera::interop {
namespace {

constexpr Leaf kArrayLeaves[] = {{"", "", true}};
constexpr Leaf kSameLeaves[] = {{".weight", ".weight", true}, {".bias", ".bias", false}};
constexpr Leaf kNormLeaves[] = {{".weight", "/scale", true}, {".bias", "/bias", false}};
constexpr Leaf kFlaxLeaves[] = {{".weight", "/kernel", true}, {".bias", "/bias", false}};

bool is_matrix(Form form) { return form == Form::kDense || form == Form::kHeads || form == Form::kOut; }

std::vector<float> floats(const models::Array& array) { return models::to_floats({array.type, array.data}); }

// [outer, rows, columns] -> [outer, columns, rows].
std::vector<float> transposed(const std::vector<float>& in, int64_t outer, int64_t rows, int64_t columns) {
  std::vector<float> out(in.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        out[static_cast<size_t>((o * columns + c) * rows + r)] = in[static_cast<size_t>((o * rows + r) * columns + c)];
      }
    }
  }
  return out;
}

Dims library_kernel(Form form, int64_t in, int64_t out, int64_t heads) {
  if (form == Form::kHeads) return {in, heads, out / heads};
  if (form == Form::kOut) return {heads, in / heads, out};
  return {in, out};
}

}  // namespace

std::span<const Leaf> leaves(Form form) {
  switch (form) {
    case Form::kArray: return kArrayLeaves;
    case Form::kSame: return kSameLeaves;
    case Form::kNorm: return kNormLeaves;
    default: return kFlaxLeaves;
  }
}

size_t library_rank(Form form, const Leaf& leaf) {
  switch (form) {
    case Form::kDense: return leaf.weight ? 2 : 1;
    case Form::kHeads: return leaf.weight ? 3 : 2;
    case Form::kOut: return leaf.weight ? 3 : 1;
    case Form::kPatches: return leaf.weight ? 4 : 1;
    default: return 0;
  }
}

models::Array to_timm_layout(models::Array theirs, Form form, const Leaf& leaf) {
  const Dims& d = theirs.type.dims;
  if (form == Form::kPatches && leaf.weight) {
    const int64_t pixels = d[0] * d[1];
    Dims dims = {d[3], d[2], d[0], d[1]};
    if (theirs.data.empty()) return {{DType::kF32, std::move(dims)}, {}};
    return models::array_f32(dims, transposed(transposed(floats(theirs), 1, pixels * d[2], d[3]), d[3], pixels, d[2]));
  }
  if (is_matrix(form) && leaf.weight) {
    const int64_t in = form == Form::kOut ? d[0] * d[1] : d[0], out = form == Form::kHeads ? d[1] * d[2] : d.back();
    if (theirs.data.empty()) return {{DType::kF32, {out, in}}, {}};
    return models::array_f32({out, in}, transposed(floats(theirs), 1, in, out));
  }
  if (form == Form::kHeads) theirs.type.dims = {element_count(d)};
  return theirs;
}

models::Array from_timm_layout(models::Array timms, Form form, const Leaf& leaf, int64_t heads) {
  const Dims& d = timms.type.dims;
  if (form == Form::kPatches && leaf.weight) {
    const int64_t pixels = d[2] * d[3];
    return models::array_f32({d[2], d[3], d[1], d[0]},
                             transposed(transposed(floats(timms), d[0], d[1], pixels), 1, d[0], pixels * d[1]));
  }
  if (is_matrix(form) && leaf.weight) {
    return models::array_f32(library_kernel(form, d[1], d[0], heads), transposed(floats(timms), 1, d[0], d[1]));
  }
  if (form == Form::kHeads) timms.type.dims = {heads, d[0] / heads};
  return timms;
}

models::Array join_rows(const std::vector<models::Array>& parts) {
  models::Array whole = parts.front();
  for (size_t p = 1; p < parts.size(); ++p) {
    whole.type.dims[0] += parts[p].type.dims[0];
    whole.data.insert(whole.data.end(), parts[p].data.begin(), parts[p].data.end());
  }
  return whole;
}

std::vector<models::Array> split_rows(const models::Array& whole, size_t count) {
  if (count == 1) return {whole};
  TensorType type = whole.type;
  type.dims[0] /= static_cast<int64_t>(count);
  const auto bytes = static_cast<ptrdiff_t>(byte_count(type));
  std::vector<models::Array> parts;
  for (auto begin = whole.data.begin(); parts.size() < count; begin += bytes) parts.push_back({type, {begin, begin + bytes}});
  return parts;
}

}  // namespace tessera::interop
