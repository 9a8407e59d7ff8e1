#include "nn/init.h"

#include <cmath>

#include "base/error.h"
#include "ir/ops.h"
#include "ir/random.h"
#include "nn/scope.h"

namespace tessera::nn {
namespace {

struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(const ParamSpec& spec) {
  const Dims dims = spec.layer_dims();
  TESSERA_CHECK(dims.size() >= 2, "{} initialises {} {}, which has no fans", describe(spec.init), spec.name, to_string(dims));
  double window = 1;
  for (size_t i = 0; i + 2 < dims.size(); ++i) window *= static_cast<double>(dims[i]);
  return {window * static_cast<double>(dims[dims.size() - 2]), window * static_cast<double>(dims.back())};
}

// Standard deviation of a standard normal cut to [-2, 2].
constexpr double kCutStd = 0.87962566103423978;

}  // namespace

ir::Value initial_value(const ParamSpec& spec, ir::Value key) {
  const Init& init = spec.init;
  const Dims& dims = spec.type.dims;
  if (init.kind == Init::Kind::kConstant) return ir::constant(init.value, DType::kF32, dims);
  const ir::Value own = ir::fold_in(key, spec.name);
  switch (init.kind) {
    case Init::Kind::kNormal: return ir::random_normal(own, dims) * init.value;
    case Init::Kind::kTruncatedNormal: return ir::random_truncated_normal(own, dims) * init.value;
    case Init::Kind::kUniform: return ir::random_uniform(own, dims, -init.value, init.value);
    case Init::Kind::kLecunNormal: return ir::random_truncated_normal(own, dims) * (std::sqrt(1 / fans_of(spec).in) / kCutStd);
    case Init::Kind::kXavierUniform: {
      const Fans fans = fans_of(spec);
      const double limit = std::sqrt(6 / (fans.in + fans.out / static_cast<double>(init.parts)));
      return ir::random_uniform(own, dims, -limit, limit);
    }
    case Init::Kind::kConstant: break;
  }
  TESSERA_CHECK(false, "unknown initialiser of {}", spec.name);
  return {};
}

std::string describe(const Init& init) {
  switch (init.kind) {
    case Init::Kind::kConstant:
      if (init.value == 0) return "zeros";
      return init.value == 1 ? "ones" : fmt::format("constant({})", init.value);
    case Init::Kind::kNormal: return fmt::format("normal({})", init.value);
    case Init::Kind::kTruncatedNormal: return fmt::format("truncated_normal({})", init.value);
    case Init::Kind::kUniform: return fmt::format("uniform({})", init.value);
    case Init::Kind::kLecunNormal: return "lecun_normal";
    case Init::Kind::kXavierUniform:
      return init.parts == 1 ? "xavier_uniform" : fmt::format("xavier_uniform(parts={})", init.parts);
  }
  return "unknown";
}

}  // namespace tessera::nn
