#pragma once
// The files that a conversion writes beside its shards, so that other libraries know what these hold.

#include <string>
#include <vector>

#include "data/tools/convert/convert.h"
#include "data/tools/convert/shard_writer.h"

namespace tessera::data {

// Both return the name of the list of classes that they wrote, which the manifest lists too: a list that is damaged gives
// samples other labels. Empty where there are no classes.

// dataset_info.json, features.json and label.labels.txt of a TFDS data set `name`, in `folder`. A text field is a Text or, as
// `lists` has it, a Sequence of them.
std::string write_tfds_metadata(const std::string& folder, const std::string& name, ConvertFormat format,
                                const ConvertFields& fields, const TextLists& lists, const std::vector<std::string>& classes,
                                const std::vector<ConvertedSplit>& splits);

// _info.json, which timm reads, and classes.txt.
std::string write_tar_metadata(const std::string& folder, const std::vector<std::string>& classes,
                               const std::vector<ConvertedSplit>& splits);

}  // namespace tessera::data
