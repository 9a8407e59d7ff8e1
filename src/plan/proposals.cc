#include "plan/proposals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tessera::plan {
namespace {

using Overrides = std::vector<std::string>;

constexpr size_t kEnough = 3;        // proposals on the same hardware
constexpr size_t kEnoughLarger = 2;  // on more of it
constexpr int kLargestAccumulate = 16;

class Search {
 public:
  Search(const ReadRecipe& read, const Case& base, const Target& target, const PlanOptions& options)
      : read_(read), base_(base), target_(target), options_(options) {}

  std::vector<Proposal> run() {
    for (const Overrides& change : same_numbers()) try_on_target(change);
    for (const Overrides& change : other_precision()) try_on_target(change);
    more_devices();
    return std::move(found_);
  }

 private:
  // One for each tower that says what is recomputed.
  Overrides recompute_all() const {
    Overrides out;
    for (const config::KeyDoc& option : base_.recipe.model->family().keys("model")) {
      if (option.key.ends_with(".remat")) out.push_back(option.key + "=full");
    }
    return out;
  }

  std::vector<Overrides> same_numbers() const {
    std::vector<Overrides> out;
    Overrides sharing;
    if (base_.recipe.mesh.size("fsdp") < base_.recipe.mesh.devices() / base_.recipe.mesh.size("tensor"))
      sharing = {spread_mesh()};
    if (base_.recipe.sharding.preset != "fully_sharded") sharing.push_back("sharding.preset=fully_sharded");
    if (!sharing.empty()) out.push_back(sharing);
    Overrides remat = sharing;
    for (std::string& change : recompute_all()) remat.push_back(std::move(change));
    out.push_back(remat);
    for (int64_t n = 2 * base_.recipe.run.accumulate; n <= kLargestAccumulate; n *= 2) {
      if (base_.recipe.batch % (n * mesh::batch_parts(base_.recipe.mesh)) != 0) break;
      Overrides change = remat;
      change.push_back(fmt::format("accumulate={}", n));
      out.push_back(change);
    }
    return out;
  }

  std::vector<Overrides> other_precision() const {
    std::vector<Overrides> out;
    for (Overrides change : same_numbers()) {
      if (base_.recipe.compute == DType::kBF16) break;
      change.push_back("dtype=bf16");
      out.push_back(change);
    }
    return out;
  }

  std::string spread_mesh() const {
    const int64_t tensor = base_.recipe.mesh.size("tensor");
    return tensor > 1 ? fmt::format("mesh=fsdp=-1, tensor={}", tensor) : "mesh=fsdp=-1";
  }

  void try_on_target(const Overrides& change) {
    if (found_.size() >= kEnough) return;
    try {
      const Case c(read_, change, target_.devices(), target_.gpus());
      if (c.recipe.text != base_.recipe.text) confirm(c, target_, change);  // else nothing has changed
    } catch (const Error& error) {
      pass_over(error, fmt::format("`{}`", fmt::join(change, " ")));
    }
  }

  void more_devices() {
    size_t confirmed = 0;
    for (const std::string& name : larger_topologies(options_.topology)) {
      if (confirmed >= kEnoughLarger) return;
      try {
        const auto target = open_target(name, options_.slices, options_.device);
        const Case c(read_, {}, target->devices(), target->gpus());
        if (confirm(c, *target, {})) ++confirmed;
      } catch (const Error& error) {
        pass_over(error, name);
      }
    }
  }

  // A change that the recipe does not allow is no proposal: for example a batch that the devices don't divide. Any other
  // error is a warning, and the plan and the other proposals are made all the same.
  static void pass_over(const Error& error, const std::string& change) {
    if (error.code() == Exit::kUsage) return;
    log_warning(fmt::format("whether it would fit with {} is not known: {}", change, error.message()));
  }

  // By the CPU's account, which is an upper estimate but for the code's own needs: what is far from fitting is not compiled.
  static bool may_fit(const Case& c, const CpuCase& cpu, const Target& target) {
    const double scale = c.recipe.compute == DType::kBF16 ? 0.5 : 1;
    return static_cast<double>(c.layout.shard_bytes()) + kOptimism * scale * static_cast<double>(cpu.memory.temporaries) <=
           target.memory_bytes();
  }

  bool confirm(const Case& c, const Target& target, const Overrides& change) {
    if (static_cast<double>(c.layout.shard_bytes()) >= target.memory_bytes()) return false;
    const CpuCase cpu = compile_on_cpu(c, options_.device);
    if (!may_fit(c, cpu, target)) return false;
    const Plan plan = plan_case(c, target, options_, &cpu);
    if (!plan.fits) return false;
    Proposal proposal{plan.topology, change, plan.peak, std::nullopt};
    if (plan.roofline) proposal.step_seconds = plan.roofline->seconds();
    found_.push_back(std::move(proposal));
    return true;
  }

  // The share of a CPU's temporaries that other compilers need at least.
  static constexpr double kOptimism = 0.6;

  const ReadRecipe& read_;
  const Case& base_;
  const Target& target_;
  const PlanOptions& options_;
  std::vector<Proposal> found_;
};

}  // namespace

std::vector<Proposal> find_proposals(const ReadRecipe& read, const Case& base, const Target& target,
                                     const PlanOptions& options) {
  return Search(read, base, target, options).run();
}

}  // namespace tessera::plan
