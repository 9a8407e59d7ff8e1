#include "nn/blocks/blocks.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::nn {

std::vector<double> linear_rates(double last, int64_t count) {
  std::vector<double> rates(static_cast<size_t>(count));
  for (size_t i = 1; i < rates.size(); ++i) rates[i] = last * static_cast<double>(i) / static_cast<double>(count - 1);
  return rates;
}

bool keeps(const ir::RematPolicy& policy, const std::vector<std::string>& products) {
  const auto kept = [&](const std::string& name) { return std::ranges::count(policy.names, name) > 0; };
  return policy.kind == ir::RematPolicy::Kind::kSaveAll || std::ranges::all_of(products, kept);
}

bool written_out(const Scope& scope, const ir::RematPolicy& policy, const std::vector<std::string>& products) {
  return scope.target() && scope.target()->stacks_slowly() && keeps(policy, products);
}

namespace {

ir::RematPolicy for_target(const Scope& scope, const ir::RematPolicy& policy) {
  const bool all = policy.automatic && scope.target() && scope.target()->keeps_activations();
  return all ? ir::RematPolicy{ir::RematPolicy::Kind::kSaveAll, {}} : policy;
}

// The first `count` blocks.
ir::Value scan_first(const Scope& scope, ir::Value x, int64_t count, const BlockOptions& options, bool drop,
                     const Block& block) {
  ir::Values xs;
  if (scope.random()) xs.push_back(ir::iota({DType::kI32, {count}}, 0));
  if (drop) xs.push_back(ir::constant_f32({count}, {options.drop_path.begin(), options.drop_path.begin() + count}));
  std::vector<BufferUpdate>& updates = scope.store().updates();
  const size_t first = updates.size();
  const auto body = [&](const ir::Values& carry, const ir::Values& slices) -> ir::ScanResult {
    const Scope inner = scope.in_scan(slices.empty() ? ir::Value{} : slices[0], options.count);
    const ir::Value next = block(inner, carry[0], drop ? slices[1] : ir::Value{});
    ir::Values buffers;
    for (size_t i = first; i < updates.size(); ++i) buffers.push_back(updates[i].value);
    return {{next}, buffers};
  };
  // Where nothing is kept, the blocks are as many and as large as fit: one after the other, and compiled once.
  const bool unroll =
      scope.target() && scope.target()->unrolls_blocks() && options.remat.kind != ir::RematPolicy::Kind::kSaveNothing;
  const ir::ScanResult result =
      ir::scan(count, {x}, xs, body,
               {.remat = for_target(scope, options.remat), .unroll = options.unroll || unroll, .prevent_cse = unroll});
  for (size_t i = 0; i < result.ys.size(); ++i) updates[first + i].value = result.ys[i];
  TESSERA_CHECK(result.ys.empty() || count == options.count, "buffers in blocks whose last one is another");
  return result.carry[0];
}

}  // namespace

ir::Value scan_blocks(const Scope& scope, ir::Value x, const BlockOptions& options, const Block& block, const Block& last) {
  const bool drop = scope.random() && std::ranges::any_of(options.drop_path, [](double rate) { return rate > 0; });
  TESSERA_CHECK(!drop || static_cast<int64_t>(options.drop_path.size()) == options.count, "{} rates for {} blocks",
                options.drop_path.size(), options.count);
  const ir::NameScope named(scope.name());
  const int64_t scanned = options.count - (last ? 1 : 0);
  if (scanned > 0) x = scan_first(scope, x, scanned, options, drop, block);
  if (!last) return x;
  return last(scope.shared().in_block(scanned, options.count), x, drop ? ir::constant(options.drop_path.back()) : ir::Value{});
}

ir::Value stage(const Scope& scope, ir::Value x, const BlockOptions& options, const Block& first, const Block& rest) {
  const double rate = options.drop_path.empty() ? 0 : options.drop_path[0];
  const bool drop = scope.random() && rate > 0;
  x = first(scope / "first", x, drop ? ir::constant(rate) : ir::Value{});
  if (options.count == 1) return x;
  BlockOptions others = options;
  --others.count;
  if (!others.drop_path.empty()) others.drop_path.erase(others.drop_path.begin());
  return scan_blocks(scope / "blocks", x, others, rest);
}

}  // namespace tessera::nn
