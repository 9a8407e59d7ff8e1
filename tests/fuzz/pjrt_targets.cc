#include "fuzz/targets.h"
#include "pjrt/program/collective_order.h"

namespace tessera::fuzz {
namespace {

// What is put in order has the same form, and nothing was lost.
bool collective_order(std::string_view bytes) {
  const auto in_order = pjrt::with_collectives_in_order(bytes);
  if (!in_order) return false;
  TESSERA_CHECK(pjrt::with_collectives_in_order(*in_order));
  TESSERA_CHECK(in_order->find("tessera.order") != std::string::npos || in_order->size() <= bytes.size());
  return true;
}

}  // namespace

const std::vector<NamedTarget>& pjrt_targets() {
  static const std::vector<NamedTarget> all = {{"collective_order", collective_order, 1024}};
  return all;
}

}  // namespace tessera::fuzz
