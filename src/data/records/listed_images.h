#pragma once
// Images that text files list: each record names an image file and may hold its label and texts.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/bytes/extent.h"
#include "data/formats/json_fields.h"
#include "data/records/labels.h"
#include "data/source.h"
#include "store/file.h"

namespace tessera::data {

// The columns to read of each record.
struct ListedColumns {
  std::string image, label;  // label empty: none
  std::vector<std::string> texts;
  std::vector<std::string> all() const;  // image, label, texts
};

// How a kind of list is read. Called on several threads.
struct ListFormat {
  std::string what;  // that a record should be: "JSON object"
  // The extents of a file's records that are samples.
  std::function<std::vector<Extent>(const std::string& path, const store::ReadableFile& file)> scan;
  // The fields `names` of a record of `path`, in that order; nothing when the record is none, and `problem` then says why.
  using ReadFields = std::function<std::optional<std::vector<JsonField>>(
      const std::string& path, std::string_view record, const std::vector<std::string>& names, std::string* problem)>;
  ReadFields fields;
  std::vector<std::string> columns = {};  // that records have; empty: any
};

struct ListedImagesOptions {
  std::string pattern;       // of the lists, as the user wrote it
  std::string call;          // with absolute paths: what else than the lists the samples depend on
  std::string root;          // from which the images' paths start; empty: the folder of their list
  std::string image_suffix;  // what they lack: ".jpg"
  ListedColumns columns;
  ListFormat format;
  std::string where;  // the recipe key
};

// Throws usage and data Errors as ShardIndex and Labels do.
std::shared_ptr<const Source> list_images(const std::vector<std::string>& paths, ListedImagesOptions options,
                                          const FieldArguments& arguments);

}  // namespace tessera::data
