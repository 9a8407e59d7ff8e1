#include "data/formats/deflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera::data {
namespace {

constexpr size_t kInflateBytes = 1 << 16;
constexpr int kEither = 15 + 32;  // of the window's bits: 32 KiB, and a header of zlib's or gzip's

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream, kEither) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

}  // namespace

std::string inflate_bytes(std::string_view packed, size_t most) {
  Inflater inflater;
  z_stream& stream = inflater.stream;
  std::string out;
  for (bool whole = false;;) {
    if (stream.avail_in == 0 && !packed.empty()) {
      const size_t part = std::min<size_t>(packed.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib does not write there
      stream.avail_in = static_cast<uInt>(part);
      packed.remove_prefix(part);
    }
    if (whole) {
      // Zeros may follow a gzip stream, as gzip -d has it; else it is another member.
      if (stream.avail_in == 0 || *stream.next_in == 0) return out;
      if (inflateReset2(&stream, kEither) != Z_OK) throw std::bad_alloc();
    }
    const size_t have = out.size();
    out.resize(have + kInflateBytes);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + have);
    stream.avail_out = kInflateBytes;
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    out.resize(have + kInflateBytes - stream.avail_out);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code == Z_BUF_ERROR) throw data_error("what is packed is cut short");
    if (code != Z_OK && code != Z_STREAM_END) throw data_error("what is packed is damaged");
    if (out.size() > most) throw data_error(fmt::format("it unpacks to more than {}", human_bytes(static_cast<double>(most))));
    whole = code == Z_STREAM_END;
  }
}

}  // namespace tessera::data
