// tessera plan: what a recipe's training step needs on hardware that need not be there.
#include "plan/plan.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text/text.h"
#include "cli/command.h"

namespace tessera::cli {
namespace {

class PlanCommand final : public Command {
 public:
  Page page() const override {
    return {"plan",
            "RECIPE [key=value …] --topology NAME",
            "compile a recipe's training step for hardware that need not be there: memory, transfers, speed",
            {{"tessera plan recipes/vit_10b.toml --topology v3:8x8", "a TPU v3-128"},
             {"tessera plan recipes/vit_10b.toml dtype=bf16 --topology h200:16x8 --json", "16 hosts of 8 H200, as JSON"},
             {"tessera plan recipes/vit_10b.toml dtype=bf16 --sweep v5e:16x16,v5p:4x4x8,h200:16x8", "several in one table"},
             {"tessera plan recipes/vit_10b.toml dtype=bf16 --topology v5e:16x16 --slices 4", "four slices over the network"}},
            "Topologies: v2 v3 v4 v5e v5p v6e tpu7x as v5e:16x16; a100 h100 h200 b200 as h200:HOSTSxGPUS; cpu:N; here.\n"
            "tessera plugin install fetches the plugins. Exit code 4 when the step does not fit; --sweep takes meshes too, as\n"
            "--sweep \"fsdp=128;replica=2, fsdp=64\" beside --topology."};
  }
  void declare(Flags& flags) override {
    flags.add("--topology", "NAME", &topology_, "the hardware: v3:8x8, h200:16x8, cpu:8, here");
    flags.add("--slices", "N", &slices_, 1, "TPU slices, joined by the data-centre network");
    flags.add("--sweep", "LIST", &sweep_, "topologies (a,b,c) or meshes (a;b) to compare in one table");
    flags.add("--json", &json_, "one JSON object a plan");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions& device) override {
    const RecipeWords recipe = recipe_words(words, "plan");
    options_.device = device;
    options_.slices = slices_;
    options_.progress = [](const std::string& what) { log_line(what + " …"); };
    if (sweep_.empty()) require_flag(topology_, "--topology", "tessera plan recipes/vit_10b.toml --topology v3:8x8");
    const std::vector<plan::Plan> plans = sweep_.empty() ? std::vector{one(recipe, topology_, {})} : sweep(recipe);
    bool fits = true;
    for (const plan::Plan& plan : plans) {
      fits = fits && plan.fits;
      if (json_) print_json_text(plan::plan_json(plan));
    }
    if (!json_) print(sweep_.empty() ? plan::plan_text(plans[0]) : plan::plan_table(plans));
    return fits ? Exit::kDone : Exit::kDevice;
  }

 private:
  plan::Plan one(const RecipeWords& recipe, const std::string& topology, const std::vector<std::string>& more) {
    const auto read = [&](const std::vector<std::string>& overrides) {
      RecipeWords changed = recipe;
      changed.overrides.insert(changed.overrides.end(), more.begin(), more.end());
      changed.overrides.insert(changed.overrides.end(), overrides.begin(), overrides.end());
      return load_recipe(changed);
    };
    options_.topology = topology;
    return plan::make_plan(read, options_);
  }

  std::vector<plan::Plan> sweep(const RecipeWords& recipe) {
    options_.propose = false;
    std::vector<plan::Plan> plans;
    const bool meshes = sweep_.find('=') != std::string::npos;
    if (meshes)
      require_flag(topology_, "--topology", "tessera plan RECIPE --topology v3:8x8 --sweep \"fsdp=128;replica=2, fsdp=64\"");
    for (const std::string& part : split(sweep_, meshes ? ';' : ',')) {
      const std::string item(trim(part));
      plans.push_back(meshes ? one(recipe, topology_, {"mesh=" + item}) : one(recipe, item, {}));
    }
    return plans;
  }

  std::string topology_, sweep_;
  int64_t slices_ = 1;
  bool json_ = false;
  plan::PlanOptions options_;
};

}  // namespace

const CommandEntry kPlan = command_entry<PlanCommand>("plan");

}  // namespace tessera::cli
