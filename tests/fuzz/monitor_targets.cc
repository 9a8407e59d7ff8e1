#include "fuzz/targets.h"
#include "monitor/tensorboard/event.h"
#include "monitor/tensorboard/event_files.h"
#include "store/memory_files.h"

namespace tessera::fuzz {
namespace {

// An event file of an earlier start, cut to each of some steps; what is left is then left alone.
bool events(std::string_view bytes) {
  bool kept = false;
  for (const int64_t step : {int64_t{5}, int64_t{0}, int64_t{-1}}) {
    testing::MemoryFiles files;
    const std::string path = "tb/events.out.tfevents.0000000007.tessera";
    files.make_directories("tb");
    store::write_atomic(files, path, bytes);
    const monitor::EarlierEvents cut = monitor::cut_event_files(files, "tb", step, {});
    TESSERA_CHECK(cut.next_path == "tb/events.out.tfevents.0000000008.tessera");
    if (!files.info(path)) continue;
    const std::string text = store::read_text(files, path);
    TESSERA_CHECK(text.size() <= bytes.size());
    monitor::cut_event_files(files, "tb", step, cut.scalar_steps);
    TESSERA_CHECK(store::read_text(files, path) == text);
    kept = true;
  }
  return kept;
}

// One event, without its frame.
bool event(std::string_view bytes) { return monitor::read_event(bytes).has_value(); }

}  // namespace

const std::vector<NamedTarget>& monitor_targets() {
  static const std::vector<NamedTarget> all = {{"event", event, 1024}, {"events", events, 4096}};
  return all;
}

}  // namespace tessera::fuzz
