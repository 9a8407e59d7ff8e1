// Muon as timm computes it (Jordan et al. 2024): for matrices and filters, as [out, in h w],
//   trace <- momentum trace + (1 - momentum) g      u = trace, or with nesterov momentum trace + (1 - momentum) g
//   value <- value - lr scale(out, in) orthogonalized(u)
// orthogonalized: Newton-Schulz steps x <- a x + (b A + c A^2) x, A = x x^T, from u / |u|, which bring all singular values
// near 1. Parameters that are no matrix (shape: see `suits`) or match `fallback` follow AdamW, with nesterov NAdamW.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/pattern.h"
#include "base/text/text.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "optim/updates/adam.h"

namespace tessera::optim {
namespace {

using ir::Value;

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = false;
  int64_t steps = 5;
  std::string coefficients = "quintic";
  std::string scale = "match_rms_adamw";
  double eps = 1e-7;
  std::string iterate = "bf16";
  std::vector<std::string> fallback;
  double fallback_lr = 1;
  double b1 = 0.9;
  double b2 = 0.95;
  std::string decoupled = "lr";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("momentum", momentum, "decay of the mean gradient");
    field("nesterov", nesterov, "look one step ahead (Nesterov)");
    field("steps", steps, "Newton-Schulz steps");
    field("coefficients", coefficients, "of those steps: quintic, original, polar_express, polar_express_safer");
    field("scale", scale,
          "of lr by shape: match_rms_adamw 0.2 sqrt(max(out, in)), original sqrt(max(1, out/in)), "
          "rms_to_rms sqrt(out/in), none");
    field("eps", eps, "least norm to divide by, and AdamW's eps");
    field("iterate", iterate, "dtype of the Newton-Schulz steps, bf16 or f32");
    field("fallback", fallback, "patterns of parameters that follow AdamW whatever their shape, as head/.*");
    field("fallback_lr", fallback_lr, "AdamW's lr as a multiple of lr");
    field("b1", b1, "AdamW's decay of the first moment");
    field("b2", b2, "AdamW's decay of the second moment");
    field("decoupled", decoupled, kDecoupledHelp);
  }
};

struct Coefficients {
  double a, b, c;
};
struct Preset {
  const char* name;
  std::vector<Coefficients> steps;  // the last one again where there are more steps
};
const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {{"original", {{3.4445, -4.7750, 2.0315}}},
                                          {"quintic",
                                           {{4.0848, -6.8946, 2.9270},
                                            {3.9505, -6.3029, 2.6377},
                                            {3.7418, -5.5913, 2.3037},
                                            {2.8769, -3.1427, 1.2046},
                                            {2.8366, -3.0525, 1.2012}}},
                                          // Amsel et al. 2025, with safety 1e-2 and 2e-2.
                                          {"polar_express",
                                           {{8.237312490495555, -23.157747414558198, 16.680568411445915},
                                            {4.082441999064835, -2.893047735332586, 0.5252849256975648},
                                            {3.9263479922546582, -2.8547468034765298, 0.5318022422894988},
                                            {3.2982187133085143, -2.424541981026706, 0.48632008358844075},
                                            {2.2970369434552573, -1.63662558125903, 0.4002628455953627},
                                            {1.8763805351440397, -1.2347896577722228, 0.35891887501668385},
                                            {1.8564423485617974, -1.2132449880935525, 0.3568003487825883},
                                            {1.8749994008682747, -1.2499988017229169, 0.3749994008546422}}},
                                          {"polar_express_safer",
                                           {{8.156554524902461, -22.48329292557795, 15.878769915207462},
                                            {4.0429299351667245, -2.808917465908704, 0.5000178451051299},
                                            {3.8916678022926563, -2.7724841532176825, 0.5060648178503389},
                                            {3.285753657755658, -2.3681294933425394, 0.46449024233003117},
                                            {2.3005307116270983, -1.6111665557258408, 0.3833374427545273},
                                            {1.8631210546382593, -1.2042160621002727, 0.3421879560523383},
                                            {1.8382572152247512, -1.1779263289537742, 0.3396513038637379},
                                            {1.8749999923301852, -1.2499999836060613, 0.374999991275876}}}};
  return all;
}

// [.., m, n] x [.., n, m]^T with one optional batch dimension.
Value product(Value x, Value y, bool transposed) {
  ir::DotDims dims;
  const int64_t batch = x.rank() - 2;
  if (batch == 1) dims.lhs_batch = dims.rhs_batch = {0};
  dims.lhs_contract = {batch + 1};
  dims.rhs_contract = {transposed ? batch + 1 : batch};
  return ir::dot_general(x, y, dims);
}

class Muon final : public UpdateRule {
 public:
  Muon(MuonOptions options, Decay decay, std::vector<Coefficients> coefficients, std::vector<Pattern> fallback)
      : UpdateRule(decay),
        options_(std::move(options)),
        coefficients_(std::move(coefficients)),
        fallback_(std::move(fallback)),
        adam_({{options_.b1, options_.b2, options_.eps}, options_.nesterov}, decay) {}

  std::vector<Slot> slots(const Param& param) const override {
    return orthogonal(param) ? std::vector<Slot>{{"trace", param.block_dims(), true}} : adam_.slots(param);
  }
  Update update(const Param& param, Value value, Value grad, const ir::Values& slots, const UpdateContext& c) const override {
    if (!orthogonal(param)) {
      UpdateContext own = c;
      if (options_.fallback_lr != 1) own.lr = c.lr * options_.fallback_lr;
      return adam_.update(param, value, grad, slots, own);
    }
    grad = penalize(grad, value, c);
    const Value trace = moving_mean(slots[0], grad, options_.momentum);
    const Value step = orthogonalize(param, options_.nesterov ? moving_mean(trace, grad, options_.momentum) : trace);
    const auto [out, in] = matrix(param);
    return {shrink(value, c) - c.lr * step * scale(static_cast<double>(out), static_cast<double>(in)), {trace}};
  }

 private:
  // A parameter's array as a matrix [out, in], as torch lays it out: kernels are [.., in, out] here, others the same.
  static std::pair<int64_t, int64_t> matrix(const Param& param) {
    const Dims dims = param.block_dims();
    const int64_t out = param.is_kernel() ? dims.back() : dims.front();
    return {out, element_count(dims) / out};
  }
  // timm's _is_suitable_for_muon.
  static bool suits(const Param& param) {
    const Dims dims = param.block_dims();
    if (param.rank() < 2 || std::count_if(dims.begin(), dims.end(), [](int64_t d) { return d > 1; }) < 2) return false;
    const int64_t first = param.is_kernel() ? dims.back() : dims[0];
    const int64_t second = param.is_kernel() ? dims[dims.size() - 2] : dims[1];
    if (first == 1 || second == 1) return false;
    const auto [out, in] = matrix(param);
    return std::min(out, in) >= 4 && std::max(out, in) <= 128 * std::min(out, in);
  }
  bool orthogonal(const Param& param) const {
    return suits(param) && std::none_of(fallback_.begin(), fallback_.end(),
                                        [&](const Pattern& pattern) { return pattern.matches(param.name); });
  }
  double scale(double out, double in) const {
    if (options_.scale == "match_rms_adamw") return 0.2 * std::sqrt(std::max(out, in));
    if (options_.scale == "original") return std::sqrt(std::max(1.0, out / in));
    return options_.scale == "rms_to_rms" ? std::sqrt(out / in) : 1;
  }
  // The steps work on whichever way round has fewer rows: transposing commutes with them.
  Value orthogonalize(const Param& param, Value u) const {
    const auto [out, in] = matrix(param);
    const Dims batch = param.stacked ? Dims{u.dim(0)} : Dims{};
    const auto shaped = [&](int64_t m, int64_t n) {
      Dims dims = batch;
      dims.insert(dims.end(), {m, n});
      return dims;
    };
    const int64_t rows = param.is_kernel() ? in : out, columns = param.is_kernel() ? out : in;
    const auto flip = [&](Value x) { return ir::transpose(x, param.stacked ? Dims{0, 2, 1} : Dims{1, 0}); };
    const Value norm = ir::maximum(block_norm(param, u), ir::constant(options_.eps));
    Value x = ir::convert(ir::reshape(u / norm, shaped(rows, columns)), parse_dtype(options_.iterate));
    if (rows > columns) x = flip(x);
    for (int64_t i = 0; i < options_.steps; ++i) {
      const auto& [a, b, c] = coefficients_[std::min(static_cast<size_t>(i), coefficients_.size() - 1)];
      const Value square = product(x, x, /*transposed=*/true);
      const Value polynomial = square * b + product(square, square, /*transposed=*/false) * c;
      x = x * a + product(polynomial, x, /*transposed=*/false);
    }
    if (rows > columns) x = flip(x);
    return ir::reshape(ir::convert(x, u.dtype()), u.dims());
  }

  MuonOptions options_;
  std::vector<Coefficients> coefficients_;
  std::vector<Pattern> fallback_;
  Adam adam_;
};

void check(const config::Section& section, const MuonOptions& options) {
  check_share(section, "momentum", options.momentum);
  check_share(section, "b1", options.b1);
  check_share(section, "b2", options.b2);
  check_positive(section, "eps", options.eps);
  check_positive(section, "fallback_lr", options.fallback_lr);
  section.check_range("steps", options.steps, 1, 100);  // each is a part of the program
  const std::vector<std::string> scales = {"match_rms_adamw", "original", "rms_to_rms", "none"};
  if (std::find(scales.begin(), scales.end(), options.scale) == scales.end()) {
    section.fail("scale", fmt::format("is \"{}\"", options.scale), suggest_name(options.scale, scales));
  }
  if (options.iterate != "bf16" && options.iterate != "f32") {
    section.fail("iterate", fmt::format("is \"{}\"", options.iterate), "bf16 or f32");
  }
}

std::unique_ptr<UpdateRule> make_muon(config::Section section) {
  MuonOptions options;
  section.bind(options);
  check(section, options);
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  const auto preset = std::find(names.begin(), names.end(), options.coefficients);
  if (preset == names.end()) {
    section.fail("coefficients", fmt::format("is \"{}\"", options.coefficients), suggest_name(options.coefficients, names));
  }
  std::vector<Pattern> fallback;
  for (const std::string& pattern : options.fallback) fallback.emplace_back(pattern, section.place("fallback"));
  const Decay decay = parse_decay(section, options.decoupled);
  return std::make_unique<Muon>(options, decay, presets()[static_cast<size_t>(preset - names.begin())].steps,
                                std::move(fallback));
}

}  // namespace

const OptimizerKind kMuon = {"muon", "orthogonalised momentum for matrices, AdamW for the rest, as timm", make_muon,
                             config::keys_of<MuonOptions>};

}  // namespace tessera::optim
