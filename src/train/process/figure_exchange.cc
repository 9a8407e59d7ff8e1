#include "train/process/figure_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/system/background_thread.h"
#include "base/system/process.h"
#include "monitor/sinks/sinks.h"

namespace tessera::train {
namespace {

constexpr std::chrono::seconds kLeastInterval{5}, kOfEachProcess{2};

std::string figures_key(int64_t process) { return fmt::format("figures/{}", process); }

// The run needs none of it.
template <class Fn>
bool passing_over_failures(Fn&& fn) {
  try {
    fn();
    return true;
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::chrono::milliseconds figure_interval(int64_t processes) {
  return std::max<std::chrono::milliseconds>(kLeastInterval, processes * kOfEachProcess);
}

FigureExchange::FigureExchange(std::shared_ptr<group::Members> members, Own own, Keep keep,
                               std::optional<std::chrono::milliseconds> every)
    : members_(std::move(members)),
      own_(std::move(own)),
      keep_(std::move(keep)),
      every_(every.value_or(figure_interval(members_->count()))),
      host_(host_name()) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
    // Without the thread, figures are sent once, at the end (tell_last).
  }
}

FigureExchange::~FigureExchange() { stop(); }

void FigureExchange::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool FigureExchange::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

void FigureExchange::work() {
  become_background_thread("figures");
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    tell();
    if (members_->leads()) collect(/*to_the_end=*/false);
    lock.lock();
    // Who is not known yet is asked for again soon: reading leaves nothing with the coordinator.
    const bool complete = !members_->leads() || static_cast<int64_t>(known_.size()) == members_->count();
    changed_.wait_for(lock, complete ? every_ : std::min<std::chrono::milliseconds>(every_, kLeastInterval),
                      [this] { return ending_ || soon_; });
    soon_ = false;
  }
}

// The leader needs nobody to carry its own.
void FigureExchange::tell() {
  passing_over_failures([&] {
    monitor::ProcessFigures figures = own_();
    figures.process = members_->process_id();
    figures.host = host_;
    // A number before it, so that figures that stay the same are news too.
    std::string text = fmt::format("{} {}", ++count_, monitor::to_json(figures));
    if (!members_->leads()) return members_->put(figures_key(figures.process), text);
    figures.seen = monitor::time_now();
    known_[figures.process] = std::move(figures);
  });
}

void FigureExchange::collect(bool to_the_end) {
  bool heard = false;
  for (int64_t process = 0; process < members_->count(); ++process) {
    if (process == members_->process_id()) continue;
    if (!to_the_end && ending()) return;
    std::optional<std::string> text;
    if (!passing_over_failures([&] { text = members_->find(figures_key(process)); })) break;  // the coordinator is not reached
    if (!text || *text == texts_[process]) continue;
    passing_over_failures([&] {
      monitor::ProcessFigures figures =
          monitor::parse_process_figures(std::string_view(*text).substr(text->find(' ') + 1), "the coordinator");
      if (figures.process != process) return;
      texts_[process] = *text;
      figures.seen = monitor::time_now();
      known_[process] = std::move(figures);
      heard = true;
    });
  }
  monitor::HostFigures all{monitor::time_now(), std::chrono::duration<double>(every_).count(), {}};
  for (const auto& [process, figures] : known_) all.processes.push_back(figures);
  {
    const std::lock_guard lock(mutex_);
    for (monitor::ProcessFigures& one : all.processes) {
      if (const auto hang = hangs_.find(one.process); hang != hangs_.end()) one.hangs = hang->second;
    }
    if (heard) news_ = monitor::slowest_process(all.processes);
  }
  passing_over_failures([&] { keep_(all); });
}

void FigureExchange::tell_last() {
  stop();
  {
    const std::lock_guard lock(mutex_);
    hangs_.clear();  // all have come to the end
  }
  tell();
}

void FigureExchange::collect_last() {
  if (members_->leads()) collect(/*to_the_end=*/true);
}

void FigureExchange::set_hang(int64_t process, const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    hangs_[process] = what;
    soon_ = true;
  }
  changed_.notify_all();
}

std::optional<monitor::SlowestProcess> FigureExchange::news() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, std::nullopt);
}

}  // namespace tessera::train
