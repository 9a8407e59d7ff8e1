#include "recipe/teacher.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "state/model_source.h"

namespace tessera::recipe {
namespace {

state::LoadedModel load(const objectives::TeacherSource& source, const config::Section& objective) {
  const state::Weights weights = state::parse_weights(source.weights, objective.place("weights"));
  return state::load_model(source.from, weights, objective.place("teacher"));
}

}  // namespace

std::shared_ptr<const Teacher> load_teacher(const objectives::TeacherSource& source, const config::Section& objective,
                                            const models::InputShape& input, const data::PixelScale& pixels) {
  state::LoadedModel loaded = load(source, objective);
  const models::InputShape& in = loaded.model->input();
  if (loaded.model->classifier() == nullptr) {
    objective.fail("teacher", "is no classifier", "take a model that tells the data's classes apart");
  }
  if (in.classes != input.classes) {
    objective.fail("teacher", fmt::format("tells {} classes apart, and the data has {}", in.classes, input.classes),
                   "take a teacher of these classes");
  }
  if (in.channels != input.channels) {
    objective.fail("teacher", fmt::format("takes images of {} channels, and data.pp makes {}", in.channels, input.channels),
                   "both models see the same images");
  }
  if (in.height != input.height || in.width != input.width) {
    objective.fail(
        "teacher",
        fmt::format("takes images of {} x {}, and data.pp makes {} x {}", in.height, in.width, input.height, input.width),
        "both models see the same images");
  }
  auto teacher = std::make_shared<Teacher>();
  teacher->pixels = pixels;
  if (loaded.pp.empty()) {
    log_warning(fmt::format("`{}` does not say how it was shown pixels: as data.pp shows them, it is taken", source.from));
  } else {
    teacher->pixels = data::Pp(loaded.pp, data::PpUse::kEval, objective.place("teacher")).pixel_scale();
  }
  teacher->model = std::move(loaded.model);
  teacher->layout = std::move(loaded.layout);
  teacher->params = std::move(loaded.params);
  return teacher;
}

std::shared_ptr<const Teacher> lay_out(const std::shared_ptr<const Teacher>& teacher, const mesh::Mesh& mesh,
                                       const mesh::ShardingOptions& options) {
  if (!teacher || mesh.devices() == 1) return teacher;
  auto spread = std::make_shared<Teacher>(*teacher);
  lay_out(spread->layout, mesh, options);
  return spread;
}

}  // namespace tessera::recipe
