#include "inference/caption_programs.h"

#include "inference/tracer.h"
#include "ir/ops.h"
#include "ir/types_of.h"

namespace tessera::inference {
namespace {

using ir::Value;
using ir::Values;

// Rows `parents` of a cache [depth, rows, …].
Value rows_of(Value cache, Value parents) {
  ir::GatherDims dims;
  dims.offset_dims = {0, 2, 3, 4};
  dims.collapsed_slice_dims = dims.start_index_map = {1};
  dims.index_vector_dim = 1;
  Dims sizes = cache.dims();
  sizes[1] = 1;
  return ir::gather(cache, ir::expand_dims(parents, 1), dims, sizes);
}

Value encode(const models::Captioner& model, const nn::Scope& scope, Value images, const train::ProgramOptions& options) {
  return model.encode(scope, train::normalize(images, options.pixels));
}

}  // namespace

CaptionPrograms caption_programs(const models::Captioner& model, const state::StateLayout& layout,
                                 const train::ProgramOptions& options, int64_t rows) {
  CaptionPrograms programs;
  std::vector<TensorType> cache_types;
  {
    Tracer begin(layout, options);
    const Value images = begin.argument(train::image_batch(model, options.batch), "images");
    cache_types = types_of(begin.apply([&](const nn::Scope& scope) -> Values {
      const models::DecoderCache cache = model.begin(scope, encode(model, scope, images, options), rows);
      return {cache.images.keys, cache.images.values, cache.captions.keys, cache.captions.values};
    }));
    programs.begin = begin.program("begin_captions");
  }
  Tracer next(layout, options);
  Values of;
  for (const char* name : {"image_keys", "image_values", "keys", "values"}) {
    of.push_back(next.argument(cache_types[of.size()], name));
  }
  const Value previous = next.argument({DType::kI32, {rows}}, "previous");
  const Value parents = rows > options.batch ? next.argument({DType::kI32, {rows}}, "parents") : Value{};
  const Value position = next.argument({DType::kI32, {}}, "position");
  next.apply([&](const nn::Scope& scope) -> Values {
    models::DecoderCache cache{{of[0], of[1]}, {of[2], of[3]}};
    if (parents) cache.captions = {rows_of(of[2], parents), rows_of(of[3], parents)};
    const Value logits = model.next(scope, cache, previous, position);
    return {cache.captions.keys, cache.captions.values, logits};
  });
  const auto first = static_cast<int64_t>(layout.params) + 2;
  programs.next = next.program("next_token", {{first, 0}, {first + 1, 1}});
  return programs;
}

CaptionPrograms plain_caption_programs(const models::Captioner& model, const state::StateLayout& layout,
                                       const train::ProgramOptions& options, int64_t rows) {
  CaptionPrograms programs;
  TensorType encoded_type;
  {
    Tracer begin(layout, options);
    const Value images = begin.argument(train::image_batch(model, options.batch), "images");
    encoded_type =
        begin.apply([&](const nn::Scope& scope) -> Values { return {encode(model, scope, images, options)}; })[0].type();
    programs.begin = begin.program("encode_images");
  }
  Tracer next(layout, options);
  const Value encoded = next.argument(encoded_type, "encoded");
  const Value captions = next.argument({DType::kI32, {rows, model.input().tokens}}, "captions");
  const Value position = next.argument({DType::kI32, {}}, "position");
  next.apply([&](const nn::Scope& scope) -> Values {
    const Value all = model.decode(scope, encoded, captions), zero = ir::constant(0, DType::kI32);
    return {ir::squeeze(ir::dynamic_slice(all, {zero, position, zero}, {rows, 1, model.input().vocabulary}), 1)};
  });
  programs.next = next.program("next_token_without_cache");
  return programs;
}

}  // namespace tessera::inference
