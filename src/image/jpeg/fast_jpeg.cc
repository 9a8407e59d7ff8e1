#include "image/jpeg/fast_jpeg.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "image/jpeg/blocks.h"
#include "image/jpeg/rows.h"
#include "image/jpeg/scan.h"

namespace tessera::image {
namespace {

constexpr int kBlock = 8;
constexpr ptrdiff_t kMargin = jpeg_rows::kOverrun;  // on both sides of a row of samples

int divide_up(int a, int b) { return (a + b - 1) / b; }

// The samples of one component in the last two rows of MCUs: upsampling looks at the row above and the row below. Only the
// columns that the region needs.
struct Plane {
  int columns = 0, rows = 0;         // of the component's whole image
  int first = 0;                     // column at the left
  int horizontal = 0, vertical = 0;  // blocks in an MCU
  ptrdiff_t stride = 0;
  PaddedBuffer samples;

  uint8_t* row(int y) { return samples.data() + kMargin + (y & (2 * kBlock * vertical - 1)) * stride; }
  const uint8_t* clamped_row(int y) { return row(std::clamp(y, 0, rows - 1)); }
};

// first <= i < end.
struct Range {
  int first = 0, end = 0;
};

// The MCUs, across or down, that hold `count` samples from `first` on and the neighbours that upsampling looks at; `factor` is
// that of the upsampling, `chroma_size` the number of chroma samples there are.
Range needed_mcus(int first, int count, int factor, int chroma_size) {
  if (factor == 1) return {first / kBlock, (first + count - 1) / kBlock + 1};
  // Sample x lies in chroma sample x / 2 and looks at the one before if x is even, at the one after if it is odd.
  return {std::max(0, (first - 1) >> 1) / kBlock, std::min(chroma_size - 1, (first + count) / 2) / kBlock + 1};
}

// Tables of the files in progress, and of those before them until their place is needed.
template <class Table>
class Tables {
 public:
  // Null when it is no code. The table stays as it is until it is given back.
  const Table* take(const uint8_t* bytes) {
    Entry* place = nullptr;
    for (Entry& entry : entries_) {
      if (entry.table.codes.is(bytes)) {
        place = &entry;
        break;
      }
      if (entry.users == 0) place = &entry;
    }
    TESSERA_CHECK(place);
    if (!place->table.build(bytes)) return nullptr;
    ++place->users;
    return &place->table;
  }
  void give_back(const Table* table) {
    for (Entry& entry : entries_) entry.users -= &entry.table == table;
  }

 private:
  struct Entry {
    Table table;
    int users = 0;
  };
  std::array<Entry, 2 * 3 + 1> entries_;  // three components of two files, and one that may fail
};

}  // namespace

struct FastJpeg::SharedTables {
  Tables<JpegDcTable> dc;
  Tables<JpegAcTable> ac;
};

struct FastJpeg::State {
  std::shared_ptr<SharedTables> tables = std::make_shared<SharedTables>();
  std::array<const JpegDcTable*, 3> dc{};  // of the components
  std::array<const JpegAcTable*, 3> ac{};
  std::array<JpegQuantisation, 4> quantisation;
  JpegScan scan;
  std::array<Plane, 3> planes;
  PaddedBuffer chroma[2];  // a row of each, upsampled

  // Of the file being decoded.
  const JpegHeader* header = nullptr;
  Box box;
  Range mcu_columns, mcu_rows;
  Image* image = nullptr;
  JpegStream stream;
  int rows = 0, mcu_row = 0;  // of MCUs: all, and the one being read
  int next = 0;               // row of the image to be written
  bool done = true, ok = false;

  bool prepare_tables();
  void release_tables();
  void prepare_planes();
  void prepare_row();
  bool start(ByteSpan file);
  void start_row();
  void end_row();
  void finish(bool as_usual);
  void fill_edges();
  void write_rows(int mcu_rows_read);
  void write_row(int y, uint8_t* out);
};

bool FastJpeg::State::prepare_tables() {
  for (size_t c = 0; c < static_cast<size_t>(header->components); ++c) {
    const auto& [q, d, a] = header->component[c];
    quantisation[static_cast<size_t>(q)].set(header->quantisation[q], header->wide[q]);
    dc[c] = tables->dc.take(header->dc[d]);
    ac[c] = tables->ac.take(header->ac[a]);
    if (!dc[c] || !ac[c]) return false;
  }
  return true;
}

void FastJpeg::State::release_tables() {
  for (const JpegDcTable* table : dc) tables->dc.give_back(table);
  for (const JpegAcTable* table : ac) tables->ac.give_back(table);
  dc = {};
  ac = {};
}

void FastJpeg::State::prepare_planes() {
  const int horizontal = header->horizontal, vertical = header->vertical;
  for (int c = 0; c < header->components; ++c) {
    Plane& plane = planes[static_cast<size_t>(c)];
    plane.columns = c ? divide_up(header->width, horizontal) : header->width;
    plane.rows = c ? divide_up(header->height, vertical) : header->height;
    plane.horizontal = c ? 1 : horizontal;
    plane.vertical = c ? 1 : vertical;
  }
  const Plane& smallest = planes[header->components == 1 ? 0 : 1];
  mcu_columns = needed_mcus(box.x, box.width, horizontal, smallest.columns);
  mcu_rows = needed_mcus(box.y, box.height, vertical, smallest.rows);
  for (int c = 0; c < header->components; ++c) {
    Plane& plane = planes[static_cast<size_t>(c)];
    const int mcu_width = kBlock * plane.horizontal;
    plane.first = mcu_columns.first * mcu_width;
    plane.stride = ptrdiff_t{mcu_columns.end - mcu_columns.first} * mcu_width + 2 * kMargin;
    plane.samples.reset(static_cast<size_t>(plane.stride) * static_cast<size_t>(2 * kBlock * plane.vertical));
  }
  for (PaddedBuffer& buffer : chroma) buffer.reset(static_cast<size_t>(box.width + 2 * kMargin));
}

void FastJpeg::State::prepare_row() {
  JpegMcuRow& row = stream.row;
  row.block_count = 0;
  row.quantisation = quantisation.data();
  row.mcus = divide_up(header->width, kBlock * header->horizontal);
  for (int c = 0; c < header->components; ++c) {
    const Plane& plane = planes[static_cast<size_t>(c)];
    JpegBlock block;
    block.component = c;
    block.dc = dc[static_cast<size_t>(c)];
    block.ac = ac[static_cast<size_t>(c)];
    block.quantisation = header->component[c].quantisation;
    block.stride = plane.stride;
    block.step = ptrdiff_t{kBlock} * plane.horizontal;
    for (int i = 0; i < plane.horizontal * plane.vertical; ++i) row.blocks[static_cast<size_t>(row.block_count++)] = block;
  }
}

void FastJpeg::State::start_row() {
  JpegMcuRow& row = stream.row;
  const bool kept = mcu_row >= mcu_rows.first;
  row.first_kept = kept ? mcu_columns.first : row.mcus;
  row.kept_end = kept ? mcu_columns.end : row.mcus;
  size_t block = 0;
  for (int c = 0; c < header->components; ++c) {
    Plane& plane = planes[static_cast<size_t>(c)];
    for (int y = 0; y < plane.vertical; ++y) {
      for (int x = 0; x < plane.horizontal; ++x) {
        row.blocks[block++].samples = plane.row((mcu_row * plane.vertical + y) * kBlock) + ptrdiff_t{x} * kBlock;
      }
    }
  }
  stream.mcu = 0;
}

// Repeats the first and the last sample of the image outside it, which is what libjpeg's upsampling comes to.
void FastJpeg::State::fill_edges() {
  for (size_t c = 1; c < 3; ++c) {
    Plane& plane = planes[c];
    const ptrdiff_t end = plane.columns - plane.first;
    for (int y = 0; y < 2 * kBlock * plane.vertical; ++y) {
      uint8_t* samples = plane.row(y);
      if (plane.first == 0) samples[-1] = samples[0];
      if (end <= plane.stride - 2 * kMargin) samples[end] = samples[end - 1];
    }
  }
}

void FastJpeg::State::write_row(int y, uint8_t* out) {
  const uint8_t* luma = planes[0].row(y) + box.x - planes[0].first;
  if (header->components == 1) return jpeg_rows::convert_grey(luma, box.width, out);
  const int x = box.x / header->horizontal;
  const int count = divide_up(box.x + box.width, header->horizontal) - x;
  const uint8_t* upsampled[2];
  for (size_t c = 0; c < 2; ++c) {
    Plane& plane = planes[c + 1];
    const ptrdiff_t at = x - plane.first;
    uint8_t* to = chroma[c].data();
    const bool lower = y % 2 != 0;
    const int near = y / header->vertical, far = lower ? near + 1 : near - 1;
    const uint8_t* in = plane.row(near) + at;
    upsampled[c] = to + (box.x - x * header->horizontal);
    if (header->horizontal == 1 && header->vertical == 1) {
      upsampled[c] = in;
    } else if (header->vertical == 1) {
      jpeg_rows::upsample_columns(in, count, to);
    } else if (header->horizontal == 1) {
      jpeg_rows::upsample_rows(in, plane.clamped_row(far) + at, lower, count, to);
    } else {
      jpeg_rows::upsample_both(in, plane.clamped_row(far) + at, count, to);
    }
  }
  jpeg_rows::convert_ycc(luma, upsampled[0], upsampled[1], box.width, out);
}

// Row `next` of the image and those after it, as far as their samples and their lower neighbours are among the first
// `mcu_rows_read` rows of MCUs.
void FastJpeg::State::write_rows(int mcu_rows_read) {
  const int luma = mcu_rows_read * kBlock * header->vertical;
  const bool last = luma >= header->height;
  const int end = last || header->vertical == 1 ? luma : luma - 1;
  for (; next < std::min(end, box.y + box.height); ++next) write_row(next, image->row(next - box.y));
}

bool FastJpeg::State::start(ByteSpan file) {
  if (!prepare_tables()) return false;
  prepare_planes();
  prepare_row();
  rows = divide_up(header->height, kBlock * header->vertical);
  const int64_t mcus = int64_t{stream.row.mcus} * rows, interval = header->restart_interval;
  if (!scan.read(file, header->scan, interval ? static_cast<size_t>((mcus + interval - 1) / interval) : 1)) return false;
  stream.start(scan, header->restart_interval);
  image->reset(box.width, box.height);
  next = box.y;
  mcu_row = 0;
  start_row();
  return true;
}

void FastJpeg::State::end_row() {
  if (stream.unusual) return finish(false);
  if (mcu_row >= mcu_rows.first) {
    if (header->components == 3 && header->horizontal == 2) fill_edges();
    write_rows(mcu_row + 1);
  }
  if (++mcu_row < mcu_rows.end) return start_row();
  finish(mcu_rows.end < rows || stream.cursor.at_interval_end());
}

void FastJpeg::State::finish(bool as_usual) {
  done = true;
  ok = as_usual;
  release_tables();
}

FastJpeg::FastJpeg() : state_(new State) {}
FastJpeg::~FastJpeg() { state_->release_tables(); }

void FastJpeg::share_tables(FastJpeg& other) {
  state_->release_tables();
  state_->tables = other.state_->tables;
}

void FastJpeg::start(ByteSpan file, const JpegHeader& header, const Box* box, Image& image) {
  State& s = *state_;
  s.release_tables();
  s.header = &header;
  s.image = &image;
  s.box = box ? *box : Box{0, 0, header.width, header.height};
  // Where chroma has fewer than three columns libjpeg repeats them.
  const bool repeats = header.horizontal == 2 && header.width <= 4;
  s.done = s.ok = false;
  if (repeats || !s.start(file)) s.finish(false);
}

void FastJpeg::run(FastJpeg& first, FastJpeg* second) {
  TESSERA_CHECK(!first.done() && !(second && second->done()));
  while (!first.done() && !(second && second->done())) {
    read_mcus(first.state_->stream, second ? &second->state_->stream : nullptr);
    for (FastJpeg* each : {&first, second}) {
      if (each && each->state_->stream.row_done()) each->state_->end_row();
    }
  }
}

bool FastJpeg::done() const { return state_->done; }
void FastJpeg::abandon() { state_->finish(false); }
bool FastJpeg::ok() const { return state_->ok; }

}  // namespace tessera::image
