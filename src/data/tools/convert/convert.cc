#include "data/tools/convert/convert.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "data/index/listing.h"
#include "data/tools/convert/journal.h"
#include "data/tools/convert/metadata.h"
#include "data/tools/convert/shard_writer.h"
#include "image/codec/decode.h"
#include "image/codec/encode_jpeg.h"
#include "image/resize/resize.h"
#include "store/checksums.h"
#include "store/file.h"
#include "store/local/leftovers.h"
#include "store/local/lock.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::data {
namespace {

using nlohmann::ordered_json;

constexpr int kDefaultQuality = 95;
constexpr const char* kNames[] = {"tfrecord", "array_record", "tar"};

// Image, label and file name have their own.
const std::vector<std::string> kReserved = {"image", "label", "file_name"};

// Makes the bytes to write of one sample.
class Reencoder {
 public:
  Reencoder(const ConvertOptions& options, const image::DecodeLimits& limits) : options_(options), decoder_(limits) {}

  // A reason when the image cannot be decoded, which is tried of those that stay as they are too: whoever reads the shards
  // would find out late, and a text file among the images would become a member .jpg.
  [[nodiscard]] std::optional<std::string> apply(Sample& sample) {
    image::ImageInfo info;
    if (auto failed = decoder_.probe(sample.image, info)) return failed->reason;
    if (auto failed = decoder_.decode(sample.image, image_)) return failed->reason;
    const int side = std::min(info.width, info.height);
    const bool smaller = options_.resize > 0 && side > options_.resize;
    if (!smaller && !options_.quality) return std::nullopt;
    const image::Image* result = &image_;
    if (smaller) {
      const double scale = static_cast<double>(options_.resize) / side;
      const auto scaled = [&](int length) { return std::max(1, static_cast<int>(std::lround(length * scale))); };
      resized_.reset(scaled(info.width), scaled(info.height));
      resizer_.resize(image_.view(), image::Filter::kBicubic, false, resized_.width(), resized_.height(), resized_.row(0),
                      resized_.stride());
      result = &resized_;
    }
    encoded_ = image::encode_jpeg(result->view(), options_.quality.value_or(kDefaultQuality));
    sample.image = encoded_;
    return std::nullopt;
  }

 private:
  const ConvertOptions& options_;
  image::Decoder decoder_;
  image::Resizer resizer_;
  image::Image image_, resized_;
  std::vector<uint8_t> encoded_;
};

// The bytes of a sample on average, from some that lie evenly over the source.
double mean_bytes(const ConvertSplit& split, const ConvertOptions& options) {
  constexpr int64_t kSamples = 256;
  const Source& source = *split.source;
  const int64_t count = std::min(kSamples, source.size());
  Reencoder reencoder(options, split.limits);
  Sample sample;
  int64_t bytes = 0, read = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (source.read(i * source.size() / count, sample) || reencoder.apply(sample)) continue;
    bytes += static_cast<int64_t>(sample.image.size());
    ++read;
  }
  return read == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(read);
}

struct SplitPlan {
  const ConvertSplit* split;
  int64_t shards = 0;
  int64_t first(int64_t shard) const { return shard * split->source->size() / shards; }
};

std::string shard_file_name(const std::string& name, ConvertFormat format, const SplitPlan& plan, int64_t shard) {
  if (format == ConvertFormat::kTar) return fmt::format("{}-{}-{:06}.tar", name, plan.split->name, shard);
  return fmt::format("{}-{}.{}-{:05}-of-{:05}", name, plan.split->name, convert_format_name(format), shard, plan.shards);
}

ordered_json plan_json(const std::vector<SplitPlan>& plans, const ConvertOptions& options) {
  ordered_json json = {{"manifest", kManifestVersion},
                       {"format", convert_format_name(options.format)},
                       {"resize", options.resize},
                       {"splits", ordered_json::array()}};
  json["quality"] = options.quality ? ordered_json(*options.quality) : ordered_json(nullptr);
  for (const SplitPlan& plan : plans) {
    const auto fingerprint = plan.split->source->fingerprint();
    json["splits"].push_back({{"name", plan.split->name},
                              {"source", plan.split->call},
                              {"samples", plan.split->source->size()},
                              {"shards", plan.shards},
                              {"fingerprint", fingerprint ? ordered_json(to_string(*fingerprint)) : ordered_json(nullptr)}});
  }
  return json;
}

// Of a plan, but what tells the state of the sources' files.
nlohmann::json without_fingerprints(nlohmann::json plan) {
  if (plan.is_object() && plan.contains("splits") && plan["splits"].is_array()) {
    for (nlohmann::json& split : plan["splits"]) {
      if (split.is_object()) split.erase("fingerprint");
    }
  }
  return plan;
}

// Makes sure that `out` holds nothing but this conversion.
void claim(const std::string& out, const ordered_json& plan) {
  store::FileSystem& files = store::files_at(out);
  const std::string path = store::join_path(out, kConversionFile);
  const std::string text = plan.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  if (files.info(path)) {
    const std::string there = store::read_text(files, path);
    if (there == text) return;
    if (without_fingerprints(read_json(there).value) == without_fingerprints(read_json(text).value)) {
      throw usage_error(fmt::format("the files to convert changed since the conversion in `{}` was begun", out), {},
                        "its shards would be of two states: choose another --out, or remove it");
    }
    throw usage_error(fmt::format("`{}` holds another conversion", out), {},
                      fmt::format("choose another --out, or remove it; {} says what it is", path));
  }
  const bool there = files.info(out).has_value();
  for (const store::FileInfo& entry : there ? files.list(out) : std::vector<store::FileInfo>()) {
    // Of a start that could not write the plan, nor remove it; sweep() does.
    const auto temporary = store::parse_temporary_name(entry.name);
    const bool plan_of_another_start = temporary && temporary->file == kConversionFile;
    if (entry.name != ".lock" && !plan_of_another_start)
      throw usage_error(fmt::format("`{}` is not empty", out), {}, "choose another --out");
  }
  store::write_atomic(files, path, text);
}

// A field of an archive's .json keeps the name that it has there.
std::vector<std::string> written_names(std::vector<std::string> texts) {
  constexpr std::string_view kJson = "json.";
  for (std::string& text : texts) {
    if (text.starts_with(kJson)) text.erase(0, kJson.size());
  }
  return texts;
}

void check_fields(const std::vector<ConvertSplit>& splits) {
  const Source& first = *splits.front().source;
  for (const ConvertSplit& split : splits) {
    if (split.source->size() == 0 || split.source->fill_pixels(0, {}))
      throw usage_error(fmt::format("`{}` has no images to convert", split.call));
    if (split.source->class_names() != first.class_names() || split.source->text_fields() != first.text_fields() ||
        split.source->multi_label() != first.multi_label()) {
      throw usage_error(fmt::format("`{}` and `{}` have other classes or texts", splits.front().call, split.call), {},
                        "convert them one by one");
    }
  }
  for (const std::string& name : first.class_names()) {
    if (name.find_first_of("\r\n") == std::string::npos) continue;
    throw usage_error(
        fmt::format("the class name `{}` has a line end, and lists of classes are one name a line", one_line(name)), {},
        "rename it in the source");
  }
  std::vector<std::string> taken = kReserved;
  for (const std::string& text : written_names(first.text_fields())) {
    if (std::ranges::find(taken, text) != taken.end())
      throw usage_error(fmt::format("a text is named `{}`, as another field is", text), {}, "rename it in the source");
    taken.push_back(text);
  }
}

// Sums up what is written.
class SummedFile final : public store::WritableFile {
 public:
  explicit SummedFile(std::unique_ptr<store::WritableFile> file) : file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes) override {
    file_->write(bytes);
    hash_.add(bytes);
    size_ += static_cast<int64_t>(bytes.size());
  }
  void flush() override { file_->flush(); }
  void sync() override { file_->sync(); }
  void close() override { file_->close(); }
  store::FileInfo info() const override { return file_->info(); }
  int64_t size() const { return size_; }
  store::Digest sha256() { return hash_.finish(); }

 private:
  std::unique_ptr<store::WritableFile> file_;
  store::Sha256 hash_;
  int64_t size_ = 0;
};

// Everything that the shards of a conversion share.
class Conversion {
 public:
  Conversion(const std::vector<ConvertSplit>& splits, const ConvertOptions& options, const ConvertProgress& progress)
      : options_(options), progress_(progress) {
    const Source& first = *splits.front().source;
    fields_ = {!first.class_names().empty(), written_names(first.text_fields()), first.multi_label()};
    lists_.resize(fields_.texts.size());
    for (const ConvertSplit& split : splits) {
      const double bytes = mean_bytes(split, options) * static_cast<double>(split.source->size());
      const auto shards = static_cast<int64_t>(std::ceil(bytes / static_cast<double>(options.shard_bytes)));
      plans_.push_back({&split, std::clamp<int64_t>(shards, 1, std::min<int64_t>(split.source->size(), 99'999))});
      total_ += split.source->size();
    }
    name_ = store::last_part(absolute_path(options.out));
    folder_ = options.format == ConvertFormat::kTar ? options.out : store::join_path(options.out, "1.0.0");
  }

  std::vector<ConvertedSplit> run() {
    files_.make_directories(options_.out);
    // In a bucket two that convert the same write the same objects, and another conversion is refused by its plan.
    std::optional<store::DirectoryLock> lock;
    if (!store::is_remote(options_.out)) lock.emplace(options_.out);
    claim(options_.out, plan_json(plans_, options_));
    files_.make_directories(folder_);
    sweep();
    journal_.emplace(options_.out, folder_);
    for (const SplitPlan& plan : plans_) results_.push_back(convert_split(plan));
    const std::vector<std::string>& classes = plans_.front().split->source->class_names();
    const std::string list = options_.format == ConvertFormat::kTar
                                 ? write_tar_metadata(folder_, classes, results_)
                                 : write_tfds_metadata(folder_, name_, options_.format, fields_, lists_, classes, results_);
    if (!list.empty()) manifest_.push_back(class_list_entry(list));
    journal_->finish(manifest_);
    return std::move(results_);
  }

 private:
  struct Shard {
    ManifestFile file;
    bool kept = false, remade = false;
  };

  ConvertedSplit convert_split(const SplitPlan& plan) {
    std::vector<Shard> shards(static_cast<size_t>(plan.shards));
    parallel_for(plan.shards, thread_count(options_.threads, plan.shards),
                 [&](int64_t i, int) { shards[static_cast<size_t>(i)] = convert_shard(plan, i); });
    ConvertedSplit result{.name = plan.split->name};
    for (int64_t i = 0; i < plan.shards; ++i) {
      Shard& shard = shards[static_cast<size_t>(i)];
      const ManifestFile& file = shard.file;
      result.files.push_back(file.name);
      result.shard_lengths.push_back(file.samples);
      result.samples += file.samples;
      result.bytes += file.size;
      result.kept += shard.kept;
      if (shard.remade) result.remade.push_back(file.name);
      result.unreadable.insert(result.unreadable.end(), file.unreadable.begin(), file.unreadable.end());
      for (size_t field = 0; field < lists_.size(); ++field) lists_[field] = lists_[field] || file.lists[field];
      manifest_.push_back(std::move(shard.file));
    }
    return result;
  }

  Shard convert_shard(const SplitPlan& plan, int64_t number) {
    const std::string name = shard_file_name(name_, options_.format, plan, number);
    bool damaged = false;
    // Where images had to be left out they may be readable now.
    auto file = journal_->finished(name, damaged);
    if (file && file->lists.size() == fields_.texts.size() && file->unreadable.empty()) {
      tell(plan.first(number + 1) - plan.first(number));
      return {*std::move(file), /*kept=*/true};
    }
    Shard shard{make_shard(plan, number, name), false, damaged};
    journal_->add(shard.file);
    return shard;
  }

  ManifestFile make_shard(const SplitPlan& plan, int64_t number, const std::string& name) {
    const std::string path = store::join_path(folder_, name);
    ManifestFile shard{.name = name, .split = plan.split->name, .lists = TextLists(fields_.texts.size())};
    store::write_atomic(files_, path, [&](const std::string& temporary) {
      SummedFile file(files_.create(temporary));
      const auto writer = make_shard_writer(options_.format, fields_, file);
      Reencoder reencoder(options_, plan.split->limits);
      Sample sample;
      for (int64_t i = plan.first(number); i < plan.first(number + 1); ++i) {
        const Source& source = *plan.split->source;
        auto reason = source.read(i, sample);
        if (!reason) reason = reencoder.apply(sample);
        if (reason) {
          shard.unreadable.push_back(fmt::format("{}: {}", source.id(i), *reason));
        } else {
          writer->add(i, source.id(i), sample);
          ++shard.samples;
          for (size_t field = 0; field < fields_.texts.size(); ++field)
            shard.lists[field] = shard.lists[field] || sample.texts[field].size() != 1;
        }
        tell(1);
      }
      writer->finish();
      file.sync();
      file.close();
      shard.size = file.size();
      shard.sha256 = store::to_hex(file.sha256());
    });
    return shard;
  }

  ManifestFile class_list_entry(const std::string& name) const {
    const std::string path = store::join_path(folder_, name);
    const auto size = static_cast<int64_t>(store::read_text(files_, path).size());
    return {.name = name, .size = size, .sha256 = store::to_hex(store::sha256_of(files_, path))};
  }

  // What a killed conversion left half written: of any process, since the directory is locked.
  void sweep() const {
    if (store::is_remote(folder_)) return;  // objects are whole
    std::set<std::string, std::less<>> own = {std::string(kConversionFile), std::string(kManifestFile)};
    for (const SplitPlan& plan : plans_) {
      for (int64_t shard = 0; shard < plan.shards; ++shard) own.insert(shard_file_name(name_, options_.format, plan, shard));
    }
    for (const std::string& directory : std::set{options_.out, folder_}) {
      for (const store::FileInfo& entry : files_.list(directory)) {
        const auto temporary = store::parse_temporary_name(entry.name);
        if (temporary && !entry.directory && own.contains(temporary->file))
          files_.remove_file(store::join_path(directory, entry.name));
      }
    }
  }

  void tell(int64_t count) {
    const int64_t done = done_ += count;
    if (progress_) progress_(done, total_);
  }

  const ConvertOptions& options_;
  store::FileSystem& files_ = store::files_at(options_.out);
  const ConvertProgress& progress_;
  ConvertFields fields_;
  TextLists lists_;  // of all splits
  std::optional<ConvertJournal> journal_;
  std::vector<ManifestFile> manifest_;
  std::vector<SplitPlan> plans_;
  std::vector<ConvertedSplit> results_;
  std::string name_, folder_;
  int64_t total_ = 0;
  std::atomic<int64_t> done_ = 0;
};

}  // namespace

std::optional<ConvertFormat> parse_convert_format(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<ConvertFormat>(i);
  }
  return std::nullopt;
}

const char* convert_format_name(ConvertFormat format) { return kNames[static_cast<size_t>(format)]; }

std::vector<ConvertedSplit> convert(const std::vector<ConvertSplit>& splits, const ConvertOptions& options,
                                    const ConvertProgress& progress) {
  TESSERA_CHECK(!splits.empty() && options.shard_bytes > 0);
  check_fields(splits);
  return Conversion(splits, options, progress).run();
}

}  // namespace tessera::data
