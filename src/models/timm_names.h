#pragma once
// Our parameters <-> the arrays of timm's files, in both directions, by one table.
//
//   ours                      timm's                        layout
//   patch_embed/kernel        patch_embed.proj.weight       [P P C, D] <-> [D, C, P, P]
//   patch_embed/bias          patch_embed.proj.bias
//   blocks/<rest>             blocks.<i>.<rest>             one array a block
//   <any>/kernel              <any>.weight                  [in, out] <-> [out, in]
//   <any>/scale               <any>.weight
//   everything else           the same with '.' for '/'

#include <cstdint>
#include <string>
#include <vector>

#include "models/positions.h"
#include "models/weights.h"
#include "nn/scope.h"

namespace tessera::models {

enum class TimmLayout { kSame, kTransposed, kPatches };

// One of our parameters.
struct TimmEntry {
  nn::ParamSpec spec;
  std::string name;  // timm's; "{}" stands for the number of the block
  TimmLayout layout = TimmLayout::kSame;
  Dims dims;           // timm's, of one block
  int64_t blocks = 0;  // 0: not stacked

  std::string timm_name(int64_t block = 0) const;
};

struct TimmMap {
  std::vector<TimmEntry> entries;
  // Of pos_embed [1, position_prefix + rows * columns, width].
  int64_t rows = 0, columns = 0, position_prefix = 0;
  // Where positions are no parameter: what timm's pos_embed must hold. Empty otherwise.
  std::vector<float> fixed_positions;
};

// `patch` and `channels` tell how patch_embed/kernel is cut.
std::vector<TimmEntry> timm_entries(const std::vector<nn::ParamSpec>& specs, int64_t patch, int64_t channels);

// timm's arrays (f32) from ours; every entry's parameter must be there, f32 and of its shape.
Arrays export_timm(const TimmMap& map, const ArrayViews& parameters);

struct ImportOptions {
  // Patterns (base/pattern.h) over our parameters' names: these keep their initial value, whatever the file holds. A pattern
  // that matches a name in the file lets it be ignored when we have no such parameter.
  std::vector<std::string> dont_load;
  Resample resample = Resample::kBicubic;
  Grid old_grid;      // of the file's positions; unknown (0): taken as square
  std::string where;  // for messages: the file
};

struct Imported {
  Arrays parameters;               // ours, f32; without those that dont_load keeps
  std::vector<std::string> notes;  // what was resampled or skipped, a line each
};

// Ours from timm's arrays (f32, f16, bf16 or f64). Positions of another grid are resampled. When names or shapes don't fit,
// throws one data error that lists them all: missing, unexpected, of another shape.
Imported import_timm(const TimmMap& map, const ArrayViews& file, const ImportOptions& options = {});

}  // namespace tessera::models
