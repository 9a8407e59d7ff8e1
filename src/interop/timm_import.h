#pragma once
// Weights between our parameters and arrays under timm's names, by a model's table (models/timm_names.h).

#include <string>
#include <vector>

#include "interop/positions.h"
#include "models/timm_names.h"
#include "models/weights.h"

namespace tessera::interop {

// timm's arrays (f32) from ours; every entry's parameter must be there, f32 and of its shape.
models::Arrays export_timm(const models::TimmMap& map, const models::ArrayViews& parameters);

struct ImportOptions {
  // Patterns (base/text/pattern.h) over our parameters' names: these keep their initial value, whatever the file holds. A pattern
  // that matches a name in the file lets it be ignored when we have no such parameter. One that matches neither is a usage
  // Error.
  std::vector<std::string> dont_load;
  Resample resample = Resample::kBicubic;
  Grid old_grid;  // of the file's positions; unknown (0): taken as square
  // Our names of the classifier's layers, as head, when they may keep their initial values: the file has none, or one of other
  // classes.
  std::vector<std::string> new_classifier;
  std::string where;  // for messages: the file
};

struct Imported {
  models::Arrays parameters;       // ours, f32; without those that keep their initial value
  std::vector<std::string> notes;  // what was resampled or skipped, a line each
  std::vector<std::string> kept;   // our names of those that keep it
};

// Ours from timm's arrays (f32, f16, bf16 or f64). Positions of another grid and patches of another size (patches.h) are
// resampled, a first kernel for RGB is adapted to other channels. When names or shapes don't fit, throws one data error: how
// many do, what is missing, unexpected or of another shape, and the named model that the file is (nearest_model.h).
Imported import_timm(const models::TimmMap& map, const models::ArrayViews& file, const ImportOptions& options = {});

// Throws what import_timm would for arrays of these types, whatever their elements; `data` isn't looked at.
void check_timm_types(const models::TimmMap& map, const models::ArrayViews& types, const ImportOptions& options = {});

}  // namespace tessera::interop
