#pragma once
// What TensorBoard's projector reads: projector_config.pbtxt in the directory of the event files
// (tensorboard/plugins/projector/projector_config.proto), and for each embedding tensors.tsv, metadata.tsv and sprite.png in
// projector/<name>_<step>/. There is one embedding of a name, the last.

#include <cstdint>
#include <string>

#include "monitor/record.h"
#include "store/file.h"

namespace tessera::monitor {

void write_projector(store::FileSystem& files, const std::string& directory, int64_t step, const Embedding& embedding);

// Drops the embeddings of steps after `kept_step`.
void cut_projector(store::FileSystem& files, const std::string& directory, int64_t kept_step);

}  // namespace tessera::monitor
