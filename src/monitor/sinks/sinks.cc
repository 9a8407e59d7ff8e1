#include "monitor/sinks/sinks.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"

namespace tessera::monitor {

double time_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

void Sinks::begin(const std::vector<std::string>& names, const RunStart& start, store::FileSystem& files) {
  step_ = std::max<int64_t>(0, start.kept_step);
  for (const std::string& name : names) {
    const SinkKind* kind = find_sink(name);
    TESSERA_CHECK(kind, "there is no sink `{}`", name);
    threads_.push_back(std::make_unique<SinkThread>(name, kind->make(files), start));
  }
}

void Sinks::put(int64_t step, RecordContent content) {
  step_ = step;
  if (threads_.empty()) return;
  const auto record = std::make_shared<const Record>(Record{step, time_now(), std::move(content)});
  for (const auto& thread : threads_) thread->put(record);
}

void Sinks::finish() {
  for (const auto& thread : threads_) thread->finish();
}

}  // namespace tessera::monitor
