#pragma once
// Weights of other libraries, from their files.

#include <functional>
#include <string>
#include <vector>

#include "interop/naming.h"
#include "store/encoding/bytes.h"

namespace tessera::state {

// Where weights are read from, as a user writes it: PATH, or PATH:SCOPE for the arrays below a scope ("siglip.npz:params/img",
// "runs/cappa:encoder").
struct WeightPath {
  std::string path, scope;
};
// What follows the last colon is a scope, unless there is a file of the whole name.
WeightPath parse_weight_path(const std::string& text);

// Whether the name is of a weight file: *.safetensors, *.npz, torch's *.pth (also *.pth.tar, *.pt, *.bin, *.ckpt), or what lists
// the safetensors files that hold a large model together, *.safetensors.index.json.
bool is_weight_file(const std::string& path);

// The weight file of a directory, model.safetensors, model.safetensors.index.json or pytorch_model.bin; empty where it has none.
std::string weight_file_in(const std::string& directory);

// Arrays under timm's names, wherever they come from.
struct WeightFile {
  models::ArrayViews arrays;
  interop::Naming naming = interop::Naming::kTimm;  // of the file
  std::string path;

  std::vector<store::Bytes> files;  // what the views borrow
  models::Arrays owned;             // or these

  // Call it after the arrays were used: throws store::IoError where a part of the files could not be read.
  void check() const;
};

// Called with the arrays of a .npz file or of torch's under timm's names as its headers say, `data` empty, before any is
// unpacked: a small file may unpack to much. It throws where they are not wanted.
using CheckTypes = std::function<void(const models::ArrayViews& types)>;

// A .safetensors file of timm's or Hugging Face's or an index of several, a file of torch.save (checkpoint/formats/torch_file.h), or
// a .npz file of big_vision's: the arrays below `scope`, which a .npz file may have below "params" or "opt/target". Throws data
// errors, also where a file does not fit its line in a SHA256SUMS of its directory or in <path>.sha256.
WeightFile read_weight_file(const WeightPath& from, const CheckTypes& check = {});

// The same where types alone are asked for: arrays of a .npz file or of torch's are without their data, and not unpacked.
WeightFile read_weight_types(const WeightPath& from);

}  // namespace tessera::state
