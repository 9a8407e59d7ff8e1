#include "inference/row_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/parallel.h"
#include "data/read_file.h"

namespace tessera::inference {
namespace {

std::string read_row(const data::Pp& pp, const std::string& path, data::PpScratch& scratch, uint8_t* row) {
  PaddedBuffer file;
  const auto reason = path == data::kStdin ? data::read_stdin(file) : data::read_whole_file(path, file);
  if (reason) return *reason;
  const image::SampleError failed = pp.run(file.view(), {}, scratch, row);
  return failed ? failed->reason : "";
}

}  // namespace

RowReader::RowReader(const data::Pp& pp, const image::DecodeLimits& limits, int64_t rows)
    : pp_(pp), scratch_(static_cast<size_t>(thread_count(0, rows))) {
  for (data::PpScratch& scratch : scratch_) scratch.set_limits(limits, nullptr);
}

std::vector<std::string> RowReader::read(std::span<const std::string> paths, uint8_t* rows) {
  std::vector<std::string> errors(paths.size());
  parallel_for(static_cast<int64_t>(paths.size()), static_cast<int>(scratch_.size()), [&](int64_t i, int thread) {
    const auto at = static_cast<size_t>(i);
    errors[at] = read_row(pp_, paths[at], scratch_[static_cast<size_t>(thread)], rows + at * pp_.image_bytes());
  });
  return errors;
}

void check_size(const data::Pp& pp, const models::InputShape& in) {
  const int64_t channels = pp.pixel_scale().channels();
  if (channels != in.channels) {
    throw usage_error(fmt::format("the preprocessing makes images of {} channel{}, and the model takes {}", channels,
                                  channels == 1 ? "" : "s", in.channels),
                      pp.text(), "`grayscale` makes one channel");
  }
  if (pp.height() == in.height && pp.width() == in.width) return;
  throw usage_error(fmt::format("the preprocessing makes images of {} x {}, and the model takes {} x {}", pp.height(),
                                pp.width(), in.height, in.width),
                    pp.text(), "make both the same");
}

size_t rows_for(size_t images, size_t most) { return std::min(most, std::bit_ceil(std::max<size_t>(1, images))); }

}  // namespace tessera::inference
