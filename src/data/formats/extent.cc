#include "data/formats/extent.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace tessera::data {

void check_sample_bytes(int64_t bytes) {
  if (bytes <= kMaxSampleBytes) return;
  throw data_error(fmt::format("it has {}, and samples of up to {} are read", human_bytes(static_cast<double>(bytes)),
                               human_bytes(static_cast<double>(kMaxSampleBytes))));
}

}  // namespace tessera::data
