#pragma once
// Where samples come from: a fixed list of images with labels or texts, read by index. Sources are made from a recipe's call
// ("folder(data/digits/train)") through sources.def.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "image/image.h"

namespace tessera::data {

// The texts of one field of a sample: one, or as many as it has there.
using TextValues = std::vector<std::string_view>;

// One sample as its source holds it. A reader keeps one and reads into it again and again; what it shows lies in its memory and
// is gone with the next read.
struct Sample {
  PaddedBuffer memory;
  std::string text_memory;        // of texts that are not in the file as they are shown
  ByteSpan image;                 // the image file's bytes, PaddedBuffer::kPadding readable bytes after them
  int32_t label = 0;              // in a source with class_names(); set even where read() fails, if it is known
  std::vector<int32_t> labels;    // in a multi_label() source: all of them, rising; `label` says nothing there
  std::vector<TextValues> texts;  // of each of the source's text_fields()
};

// Where a source's knowledge of its samples comes from.
enum class IndexOrigin { kNone, kBuilt, kSidecar };

struct SourceFacts {
  int64_t shards = 0;  // files of many samples; 0 where every sample is a file
  bool lists = false;  // whether those only name the samples' files, so that names and labels are quickly read
  uint64_t bytes = 0;  // of the shards; 0 where they were not asked for
  IndexOrigin index = IndexOrigin::kNone;
  std::string sidecar = {};  // the path of the index on disk; empty where there is none
  std::string call = {};     // with absolute paths: what else than the files the samples depend on; of sources with an index
};

class Source {
 public:
  virtual ~Source() = default;
  virtual int64_t size() const = 0;
  // Label l means class_names()[l]. Empty where samples have no classes.
  virtual const std::vector<std::string>& class_names() const = 0;
  // Whether a sample may have any number of labels, none included.
  virtual bool multi_label() const { return false; }
  // How many samples each class has, where that is known without reading images: of folders, and of labels in an index, for
  // which a source may read through its shards once.
  virtual std::optional<std::vector<int64_t>> class_sizes() const { return std::nullopt; }
  // The class of each sample, -1 where its label is none; known where class_sizes() is, and made in the same way. Nothing in a
  // multi_label() source, which has label_lists() instead: rising, of a sample that can't be read those that are classes.
  virtual std::optional<std::vector<int32_t>> labels() const { return std::nullopt; }
  virtual std::optional<std::vector<std::vector<int32_t>>> label_lists() const { return std::nullopt; }
  // The names of the texts that come with every image: captions, say.
  virtual std::vector<std::string> text_fields() const { return {}; }
  // The columns of the table that lists the samples, and what the samples have in one of them; a sample may have nothing there.
  // None where samples are not listed by a table, or have not the column.
  virtual std::vector<std::string> columns() const { return {}; }
  virtual std::optional<std::vector<std::optional<std::string>>> column(const std::string&) const { return std::nullopt; }
  // A name for messages and reports, unique in the source: of a file, its path relative to the source's folder.
  virtual std::string id(int64_t index) const = 0;
  // Fills `sample`. A reason when it cannot be read, in words that follow the sample's name. Thread-safe.
  [[nodiscard]] virtual std::optional<std::string> read(int64_t index, Sample& sample) const = 0;
  // Samples soon to be read: starts fetching them from a slow disk, and may wait for it. Thread-safe.
  virtual void prefetch(int64_t) const {}
  // A number that changes when the sample's file does. For a file alone it is that of now, for a shard that of when the source
  // was opened. Nothing where there is no such number, or the file changed this second. Thread-safe.
  virtual std::optional<uint64_t> stamp(int64_t) const { return std::nullopt; }
  // A hash of the names, sizes and times of change of all files that the samples come from; it looks at each file of a single
  // sample. Nothing where there are no files. A long piece of work asks it to find out whether it may go on.
  virtual std::optional<Hash128> fingerprint() const { return std::nullopt; }
  // For sources without files: writes a sample's preprocessed pixels, whatever the chain, and says true. Thread-safe.
  virtual bool fill_pixels(int64_t, std::span<uint8_t>) const { return false; }
  // The first sample of each stretch that is quicker to read in a row than here and there: a compressed group of records, say.
  // Rising, from 0 on; empty where any order is as good.
  virtual std::vector<int64_t> stretches() const { return {}; }
  virtual SourceFacts facts() const { return {}; }
  // Its files of many samples; empty where every sample is a file.
  virtual std::vector<std::string> shard_paths() const { return {}; }
  // "data/digits/train": for messages.
  virtual const std::string& name() const = 0;
};

// The names of a sample's class or classes; empty where the source has none.
std::vector<std::string_view> class_names_of(const Source& source, const Sample& sample);

// How many of the samples with these labels have each class.
std::vector<int64_t> count_classes(const std::vector<std::vector<int32_t>>& lists, size_t classes);

// Throws a usage Error for a call that is wrong and a data Error for data that is missing. `where` is the recipe key. Relative
// paths are taken from the working directory.
std::shared_ptr<const Source> make_source(std::string_view text, std::string_view where = {});

// folder(path): every sub-folder of `path` is a class, in the order of their names as bytes; every file below it, at any depth,
// is a sample of it, in the order of their paths as bytes. Names that begin with a dot are skipped.
std::shared_ptr<const Source> open_folder(const std::string& path, std::string_view where = {});

// All kinds, as sources.def lists them, for help and documentation.
struct SourceUsage {
  std::string usage, meaning;
};
std::vector<SourceUsage> source_usages();

}  // namespace tessera::data
