// tessera data convert: any source as shards of tfrecord, array_record or tar.
#include "data/tools/convert/convert.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>

#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/commands/data/sections.h"
#include "config/byte_size.h"
#include "data/loader/loader.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

constexpr int64_t kMaxSide = 65535;  // JPEG's

OneOf format_values() {
  OneOf names;
  for (const auto format : {data::ConvertFormat::kTfrecord, data::ConvertFormat::kArrayRecord, data::ConvertFormat::kTar})
    names.texts.emplace_back(data::convert_format_name(format));
  return names;
}

void tell(const data::ConvertedSplit& split) {
  for (const std::string& one : split.unreadable) log_warning(fmt::format("left out: {}", one_line(one)));
  for (const std::string& one : split.remade) log_warning(fmt::format("made again, since it was damaged: {}", one_line(one)));
  log_line(fmt::format("{}   {} sample{} in {} shard{}, {}{}{}", split.name, human_count(split.samples),
                       split.samples == 1 ? "" : "s", human_count(static_cast<int64_t>(split.files.size())),
                       split.files.size() == 1 ? "" : "s", human_bytes(static_cast<double>(split.bytes)),
                       split.kept > 0 ? fmt::format(", {} of them there before", human_count(split.kept)) : "",
                       split.unreadable.empty() ? "" : fmt::format(", {} left out", split.unreadable.size())));
}

class DataConvert final : public Command {
 public:
  Page page() const override {
    return {
        "data convert",
        "RECIPE|FOLDER|SOURCE --to tfrecord|array_record|tar --out DIR [key=value …]",
        "write a data set as shards that read fast and other libraries know",
        {{"tessera data convert \"folder(imagenet/train)\" --to array_record --out data/imagenet",
          "then source = \"tfds(imagenet, data_dir=data)\""},
         {"tessera data convert recipe.toml --to tar --out data/small --resize 256 --quality 90",
          "shorter sides of 256 pixels; then source = \"wds(data/small/small-train-*.tar)\""}},
        "The data of a recipe become splits: `data` train, eval.NAME.data NAME. What is written depends on the data and the\n"
        "flags alone; the same command goes on after an interruption, checks what is there, and refuses data that changed "
        "meanwhile.\n"
        "manifest.json beside the shards lists them with samples, sizes and SHA-256; readers compare. Exit code 3 when an "
        "image had to be left out.\n"
        "--resize costs detail: photographs of 500 x 375 made 256 at quality 90 keep 27 % of their bytes; the pixels of an\n"
        "evaluation at 256 are then 37 dB from the originals', those of random crops to 224 32 dB. Compare accuracies before\n"
        "you rely on it; `data.cache` loses nothing."};
  }
  void declare(Flags& flags) override {
    flags.add("--to", "FORMAT", &to_, format_values(), ": the first two as TFDS lays them out, tar as webdataset does");
    flags.add("--out", "DIR", &out_,
              "where, a directory or s3://, gs:// or az://BUCKET/FOLDER; its last part is the data set's name");
    flags.add(
        "--shard-size", "SIZE",
        [this](const std::string& text) { shard_bytes_ = config::parse_byte_size(text, "--shard-size"); },
        "bytes of a shard, about: 256MiB when not given");
    flags.add("--resize", "N", &resize_, 1, "make shorter sides that are longer than this so long");
    flags.add("--quality", "Q", &quality_, 1, "of JPEG files that are encoded, to 100; 95 when not given. Alone: encode all");
    flags.add("--max-pixels", "N", &max_pixels_, 1,
              "of an image that is encoded; one with more is left out. The recipe's, or 100 million");
    flags.add(
        "--max-memory", "SIZE",
        [this](const std::string& text) { max_memory_ = config::parse_byte_size(text, "--max-memory"); },
        "that decoding one image may take; one that needs more is left out. The recipe's, or 512 MiB");
    flags.add("--threads", "N", &threads_, {0, data::kMaxThreads}, "that read and write; 0: one for each core");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    require_flag(to_, "--to", "tessera data convert RECIPE --to tfrecord --out DIR");
    require_flag(out_, "--out", "tessera data convert RECIPE --to tfrecord --out DIR");
    store::refuse_writing(out_, "--out");
    const data::ConvertOptions options = read_options();
    std::vector<data::ConvertSplit> splits;
    for (const NamedSource& one : open_sources(words, "data convert"))
      splits.push_back({one.split, one.call, one.source, limits_of(one)});
    std::atomic<int64_t> next_status = 0;
    const auto start = std::chrono::steady_clock::now();
    const auto converted = data::convert(splits, options, [&](int64_t done, int64_t total) {
      const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
      int64_t due = next_status;
      if (now >= due && next_status.compare_exchange_strong(due, now + 100))
        log_status(fmt::format("{}: {} of {} samples", out_, human_count(done), human_count(total)));
    });
    log_status("");
    bool whole = true;
    for (const data::ConvertedSplit& split : converted) {
      tell(split);
      whole = whole && split.unreadable.empty();
    }
    print(out_);
    return whole ? Exit::kDone : Exit::kData;
  }

 private:
  // The recipe's, but for what a flag gives.
  image::DecodeLimits limits_of(const NamedSource& one) const {
    image::DecodeLimits limits = one.limits;
    if (max_pixels_) limits.pixels = *max_pixels_;
    if (max_memory_) limits.bytes = *max_memory_;
    return limits;
  }
  data::ConvertOptions read_options() const {
    const auto format = data::parse_convert_format(to_);
    if (!format) throw usage_error(fmt::format("`--to` is \"{}\"", to_), {}, listed(format_values()));
    if (quality_ && *quality_ > 100) throw usage_error(fmt::format("`--quality` is {}", *quality_), {}, "1 to 100");
    if (resize_ && *resize_ > kMaxSide) throw usage_error(fmt::format("`--resize` is {}", *resize_), {}, "at most 65535");
    data::ConvertOptions options{
        *format, out_, shard_bytes_, static_cast<int>(resize_.value_or(0)), {}, static_cast<int>(threads_)};
    if (quality_) options.quality = static_cast<int>(*quality_);
    return options;
  }

  std::string to_, out_;
  int64_t shard_bytes_ = int64_t{256} << 20, threads_ = 0;
  std::optional<int64_t> resize_, quality_, max_pixels_, max_memory_;
};

}  // namespace

const CommandEntry kDataConvert = command_entry<DataConvert>("data convert");

}  // namespace tessera::cli
