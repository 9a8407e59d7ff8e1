#pragma once
// Files of torch.save since PyTorch 1.6: a zip archive of a pickle and the bytes of its storages. Only tensors are read; nothing
// of the pickle is run (pickle.h).

#include <string>
#include <utility>
#include <vector>

#include "checkpoint/formats/npz.h"

namespace tessera::checkpoint {

// The tensors of the file's state dict, row-major, in its order. Which dictionary that is, is timm's rule (timm/models/_helpers.py,
// load_state_dict): state_dict_ema, model_ema, state_dict or model, the first that is there, else the whole; prefixes "module." and
// "_orig_mod." of wrappers are dropped from names. Entries of it that are no tensors are left out. Data Errors, also for a pickle
// that holds code and for the format before 1.6, name the file.
std::vector<NpzArray> read_torch(const std::string& path);
// Names and types of the tensors, from the pickle alone. A name that comes twice is here twice; read_torch() keeps the last.
std::vector<std::pair<std::string, TensorType>> torch_types(const std::string& path);

}  // namespace tessera::checkpoint
