#pragma once
// The teacher of a run with distillation: a second model whose weights are arguments of every step. The step neither changes
// nor saves them.

#include <memory>

#include "config/section.h"
#include "data/transform/pp.h"
#include "mesh/sharding_rules.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "state/state.h"

namespace tessera::recipe {

struct Teacher {
  std::shared_ptr<const models::Model> model;  // a Classifier
  state::StateLayout layout;                   // its parameters alone, on the run's mesh
  state::HostArrays params;                    // in the layout's order
  data::PixelScale pixels;                     // bytes -> the numbers it was trained on
};

// Loads the model that `source` names, for a student whose images have the shape `input` and are scaled by `pixels`. A teacher
// whose own preprocessing is not known is given the student's scaling, with a warning. Throws usage Errors at keys of
// `objective` for a source that is no model, and for a model that is no classifier of such images and classes.
std::shared_ptr<const Teacher> load_teacher(const objectives::TeacherSource& source, const config::Section& objective,
                                            const models::InputShape& input, const data::PixelScale& pixels);

// The teacher laid out on a mesh, by the rules for the run's own state.
std::shared_ptr<const Teacher> lay_out(const std::shared_ptr<const Teacher>& teacher, const mesh::Mesh& mesh,
                                       const mesh::ShardingOptions& options);

}  // namespace tessera::recipe
