#pragma once
// One shard of a conversion, in each of the formats.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/source.h"
#include "data/tools/convert/convert.h"
#include "store/file.h"

namespace tessera::data {

struct ConvertFields {
  bool labelled = false;
  std::vector<std::string> texts;  // what the source's text fields are called in what is written
  bool multi_label = false;        // a list of labels, `labels`, in place of one
};

// Of each text field, whether it is a list: some sample has none of it, or several.
using TextLists = std::vector<bool>;

class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  // `index`: of the sample in its split. `sample.image` are the bytes to write.
  virtual void add(int64_t index, const std::string& id, const Sample& sample) = 0;
  virtual void finish() = 0;
};

std::unique_ptr<ShardWriter> make_shard_writer(ConvertFormat format, const ConvertFields& fields, store::WritableFile& file);

}  // namespace tessera::data
