#include "train/reporting/own_figures.h"

#include <algorithm>
#include <utility>

namespace tessera::train {

OwnFigures::OwnFigures(std::shared_ptr<const LoopTime> loop, std::shared_ptr<const pjrt::Client> client, int64_t step)
    : loop_(std::move(loop)), client_(std::move(client)), before_(loop_->get()) {
  before_.step = std::max(before_.step, step);
}

monitor::ProcessFigures OwnFigures::take() {
  monitor::ProcessFigures out;
  const LoopTime::Total loop = loop_->get();
  const double time = loop.seconds - before_.seconds, waited = loop.waited - before_.waited;
  if (loop.step > before_.step && time > 0) {
    input_wait_ = std::clamp(waited / time, 0.0, 1.0);
    if (loop.for_peers) peer_wait_ = std::clamp((*loop.for_peers - before_.for_peers.value_or(0)) / time, 0.0, 1.0);
    step_seconds_ = std::max(0.0, time - waited) / static_cast<double>(loop.step - before_.step);
    before_ = loop;
  }
  out.step = std::max(loop.step, before_.step);
  out.input_wait = input_wait_;
  out.peer_wait = peer_wait_;
  out.step_seconds = step_seconds_;

  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(at_, now)).count();
  const auto traffic = monitor::host_traffic();
  if (traffic && traffic_ && seconds > 0) {
    out.read = static_cast<double>(traffic->read - traffic_->read) / seconds;
    out.written = static_cast<double>(traffic->written - traffic_->written) / seconds;
  }
  traffic_ = traffic;
  const auto processors = monitor::processor_time();
  if (processors && processors_ && processors->all > processors_->all) {
    const double all = processors->all - processors_->all;
    out.cpu_used = (processors->busy - processors_->busy) / all;
    out.cpu_process = (processors->process - processors_->process) / all;
  }
  processors_ = processors;
  if (const auto memory = monitor::host_memory()) {
    out.memory_used = static_cast<double>(memory->used());
    out.memory_total = static_cast<double>(memory->total);
    out.resident = static_cast<double>(memory->resident);
  }
  if (!client_) return out;
  if (const auto memory = client_->memory(client_->own_devices().front())) {
    out.device_in_use = static_cast<double>(memory->in_use);
    if (memory->peak_in_use) out.device_peak = static_cast<double>(*memory->peak_in_use);
  }
  return out;
}

}  // namespace tessera::train
