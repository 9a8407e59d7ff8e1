#pragma once
// Our parameters <-> the arrays of timm's files, in both directions, by one table.
//
//   ours                      timm's                        layout
//   <any>/blocks/<rest>       <any>.blocks.<i>.<rest>       one array a block
//   <any>/kernel              <any>.weight                  [in, out] <-> [out, in], [h, w, in, out] <-> [out, in, h, w]
//   <any>/scale               <any>.weight
//   <any>/num_batches_tracked the same                      a number here, i64 there
//   everything else           the same with '.' for '/'
//
// A model changes entries in which its names or shapes differ from that.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/weights.h"
#include "nn/scope.h"

namespace tessera::models {

// kMoved: [window…, in, out] here, [out, in, window…] there. Dimensions of size 1 and how a window is cut don't matter.
enum class TimmLayout { kSame, kMoved, kCount };

// Moves float elements from one layout to the other. `dims` are timm's.
std::vector<float> move_layout(const std::vector<float>& in, TimmLayout layout, const Dims& dims, bool to_timm);

// One of our parameters.
struct TimmEntry {
  nn::ParamSpec spec;
  std::string name;  // timm's; "{}" stands for the number of the block
  TimmLayout layout = TimmLayout::kSame;
  Dims dims;                // timm's, of one block
  int64_t blocks = 0;       // 0: not stacked
  int64_t first_block = 0;  // the number that timm gives the first one
  Dims window;              // of a convolution's kernel, ours: [height, width, in, out]. Empty elsewhere
  bool patches = false;     // the window is a patch, and can be resampled

  std::string timm_name(int64_t block = 0) const;
};

// The name of the main norm's array for one of an auxiliary batch norm (nn/norm/batch_norm.h): bn1.aux_bn.0.weight -> bn1.weight, also
// with slashes for dots. Nothing for the names of other arrays.
std::optional<std::string> main_norm(const std::string& name);

struct TimmMap {
  std::vector<TimmEntry> entries;  // the first that has a window is the kernel that reads the image
  // timm's name of the learned positions [1, position_prefix + rows * columns, width].
  std::string positions = "pos_embed";
  int64_t rows = 0, columns = 0, position_prefix = 0;
  // Where positions are no parameter: what timm's array must hold. Empty otherwise.
  std::vector<float> fixed_positions;
};

// By the table above.
std::vector<TimmEntry> timm_entries(const std::vector<nn::ParamSpec>& specs);
// Where the entry is of the patch embedding `layer` (nn/patch_embed.h), timm's: <layer>.proj, a convolution.
void flat_patches(TimmEntry& entry, const std::string& layer, int64_t patch, int64_t channels);

// Where the entry is of a stage of nn::stage, timm's: `first` is its block 0, and the others follow. Blocks stand in `parent`
// ("blocks.", or "" where timm has them in the stage itself).
void first_of_stage(TimmEntry& entry, const std::string& parent);

// The same for files of our own names and layout, one array a block.
TimmMap own_map(const TimmMap& map);

}  // namespace tessera::models
