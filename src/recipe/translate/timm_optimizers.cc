// --opt: timm/optim/_optim_factory.py.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "recipe/translate/timm.h"

namespace tessera::translate {
namespace {

constexpr TimmOptimizer kOptimizers[] = {
    {"sgd", "sgd", "", true, false, false},
    {"nesterov", "sgd", "", true, false, false},
    {"momentum", "sgd", "nesterov = false", true, false, false},
    {"sgdw", "sgd", "decoupled = \"lr\"", true, false, false},
    {"csgdw", "sgd", "decoupled = \"lr\", caution = true", true, false, false},
    {"adam", "adam", "", false, true, true},
    {"adamw", "adamw", "", false, true, true},
    {"cadamw", "adamw", "caution = true", false, true, true},
    {"nadam", "nadam", "", false, true, true},
    {"nadamw", "nadamw", "", false, true, true},
    {"cnadamw", "nadamw", "caution = true", false, true, true},
    {"radam", "radam", "", false, true, true},
    {"radamw", "radam", "decoupled = \"lr\"", false, true, true},
    {"adabelief", "adabelief", "", false, true, true},
    {"radabelief", "adabelief", "rectify = true", false, true, true},
    {"adafactor", "adafactor", "", false, false, true},
    {"adafactorbv", "adafactor_bv", "decoupled = \"lr\", min_factored = 16", false, false, true},
    {"cadafactorbv", "adafactor_bv", "decoupled = \"lr\", min_factored = 16, caution = true", false, false, true},
    {"lamb", "lamb", "", false, true, true},
    {"lambc", "lambc", "", false, true, true},
    {"lambw", "lamb", "decoupled = \"lr\"", false, true, true},
    {"lambcw", "lambc", "decoupled = \"lr\"", false, true, true},
    {"clamb", "lamb", "caution = true", false, true, true},
    {"clambw", "lamb", "decoupled = \"lr\", caution = true", false, true, true},
    {"lars", "lars", "", true, false, true},
    {"larc", "larc", "", true, false, true},
    {"nlars", "lars", "nesterov = true", true, false, true},
    {"nlarc", "larc", "nesterov = true", true, false, true},
    {"lion", "lion", "", false, true, false},
    {"clion", "lion", "caution = true", false, true, false},
    {"rmsprop", "rmsprop", "alpha = 0.9", true, false, true},
    {"adamax", "adamax", "", false, true, true},
    {"adagrad", "adagrad", "eps = 1e-8", false, false, true},
    {"adadelta", "adadelta", "", false, false, true},
    {"rmsproptf", "rmsprop_tf", "", true, false, true},
    {"crmsproptf", "rmsprop_tf", "caution = true", true, false, true},
    {"novograd", "novograd", "", false, true, true},
    {"nvnovograd", "novograd", "", false, true, true},
    {"madgrad", "madgrad", "", true, false, true},
    {"madgradw", "madgrad", "decoupled = \"lr\"", true, false, true},
    {"rmsproptfw", "rmsprop_tf", "decoupled = \"lr\"", true, false, true},
    {"novogradw", "novograd", "decoupled = \"lr\"", false, true, true},
    {"adamc", "adamw", "decoupled = \"square\"", false, true, true},
    {"nadamc", "nadamw", "decoupled = \"square\"", false, true, true},
    {"sgdc", "sgd", "decoupled = \"square\"", true, false, false},
    {"lambcd", "lamb", "decoupled = \"square\"", false, true, true},
    {"lionc", "lion", "decoupled = \"square\"", false, true, false},
    {"rmsproptfc", "rmsprop_tf", "decoupled = \"square\"", true, false, true},
    {"adamp", "adamp", "", false, true, true},
    {"sgdp", "sgdp", "", true, false, true},
    {"muon", "muon", "", true, true, true},
    {"nmuon", "muon", "nesterov = true", true, true, true},
    {"nesterovw", "sgd", "decoupled = \"lr\"", true, false, false},
    {"adamwlegacy", "adamw", "", false, true, true},
    {"cadafactor", "adafactor", "b1 = 0.9, caution = true", false, false, true},
    {"adafactorbvc", "adafactor_bv", "decoupled = \"square\", min_factored = 16", false, false, true},
    {"cadafactorbvc", "adafactor_bv", "decoupled = \"square\", min_factored = 16, caution = true", false, false, true},
    {"cadamc", "adamw", "decoupled = \"square\", caution = true", false, true, true},
    {"cnadamc", "nadamw", "decoupled = \"square\", caution = true", false, true, true},
    {"csgdc", "sgd", "decoupled = \"square\", caution = true", true, false, false},
    {"clionc", "lion", "decoupled = \"square\", caution = true", false, true, false},
    {"novogradc", "novograd", "decoupled = \"square\"", false, true, true},
    // NVIDIA's implementations of the same.
    {"fusedsgd", "sgd", "", true, false, false},
    {"fusedmomentum", "sgd", "nesterov = false", true, false, false},
    {"fusedadam", "adam", "", false, true, true},
    {"fusedadamw", "adamw", "", false, true, true},
    {"fusedlamb", "lamb", "", false, true, true},
};

// Names of timm's without a counterpart, and the nearest ones that have one.
struct MissingOptimizer {
  std::string_view names, near;
};
constexpr MissingOptimizer kOptimizersNotHere[] = {
    {"adahessian", "adamw"},
    {"adamuon nadamuon", "muon, nmuon, adamw"},
    {"adan adanw cadan cadanw", "nadamw, cnadamw, adamw"},
    {"adopt adoptc adoptw cadopt cadoptc cadoptw", "adamw, cadamw, adamc"},
    {"laprop lapropc claprop mars cmars", "adamw, cadamw, adamc"},
    {"bnbadam bnbadam8bit bnbadamw bnbadamw8bit bnbademamix bnbademamix8bit", "adamw, adam"},
    {"bnblion bnblion8bit", "lion"},
    {"bnbsgd bnbsgd8bit", "sgd"},
    {"cadamp", "adamp, cadamw"},
    {"csgdp", "sgdp, csgdw"},
    {"fusednovograd", "novograd"},
    {"kron kronc kronw", "muon, adamw"},
    {"nadamlegacy", "nadam"},
    {"radamlegacy", "radam"},
};

}  // namespace

std::span<const TimmOptimizer> timm_optimizers() { return kOptimizers; }

const TimmOptimizer& find_timm_optimizer(const std::string& name) {
  std::vector<std::string> known;
  for (const TimmOptimizer& one : kOptimizers) {
    if (name == one.timm) return one;
    known.emplace_back(one.timm);
  }
  for (const MissingOptimizer& missing : kOptimizersNotHere) {
    const std::vector<std::string> names = split(std::string(missing.names), ' ');
    if (std::ranges::find(names, name) == names.end()) continue;
    throw usage_error(fmt::format("timm's optimizer `{}` is not here", name), "--opt",
                      fmt::format("near it: {}; tessera timm --list has all", missing.near));
  }
  throw usage_error(fmt::format("there is no optimizer `{}`", name), "--opt", suggest_name(name, known));
}

}  // namespace tessera::translate
