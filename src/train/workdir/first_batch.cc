#include "train/workdir/first_batch.h"

#include <fmt/format.h>

#include <span>

#include "base/error.h"
#include "base/log.h"
#include "image/codec/png.h"
#include "store/file.h"

namespace tessera::train {

void write_first_batch(const Workdir& workdir, const image::Image& sheet) {
  if (sheet.height() == 0) return;
  try {
    workdir.expect_in_place();
    const std::vector<uint8_t> png = image::encode_png(sheet.view());
    store::write_atomic(store::local_files(), store::join_path(workdir.path(), kFirstBatch), std::as_bytes(std::span(png)));
  } catch (const Error& error) {
    log_warning(fmt::format("no {} was written: {}", kFirstBatch, error.message()));
  }
}

}  // namespace tessera::train
