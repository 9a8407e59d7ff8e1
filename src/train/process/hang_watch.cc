#include "train/process/hang_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/system/process.h"
#include "base/text/text.h"
#include "train/process/end_process.h"
#include "train/process/loop_phases.h"

namespace tessera::train {
namespace {

// All end their steps together: where another process hangs, the loop of the first one stands still too, and only then it
// asks the others. It asks before they can have news (kHangsAfter), and so has these within 15 s.
constexpr double kAsksAfter = 8;  // seconds
constexpr std::chrono::milliseconds kBetweenLooks{1000};

// How a process hangs.
constexpr const char* kByItself = "by itself";
constexpr const char* kPerhaps = "perhaps";         // by itself too, in what may take as long as it does
constexpr const char* kForDevices = "for devices";  // which may be those of others
constexpr const char* kForDevicesTooLong = "for devices, too long";

bool is_by_itself(const std::string& how) { return how == kByItself || how == kPerhaps; }

constexpr const char* kHangs = "hangs/";
std::string hang_key(int64_t process) { return fmt::format("{}{}", kHangs, process); }

}  // namespace

HangWatch::HangWatch(std::shared_ptr<group::Members> members, WatchedLoop loop, std::chrono::seconds timeout, Keep keep,
                     End end, std::optional<std::chrono::milliseconds> every)
    : members_(std::move(members)),
      loop_(std::move(loop)),
      timeout_(timeout),
      keep_(std::move(keep)),
      end_(std::move(end)),
      host_(one_line(host_name())),
      standstill_(timeout) {
  if (every) thread_ = std::make_unique<Periodic>("hang watch", *every, [this] { look(Standstill::Clock::now()); });
}

std::string HangWatch::text_of(const News& news) {
  if (news.how.empty()) return {};
  return fmt::format("{}\n{}\n{}", news.how, news.host, news.what);
}

HangWatch::News HangWatch::parse(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  const bool known = is_by_itself(lines[0]) || lines[0] == kForDevices || lines[0] == kForDevicesTooLong;
  if (!known || lines.size() != 3) return {};
  return {std::move(lines[0]), std::move(lines[1]), std::move(lines[2])};
}

std::string HangWatch::how(const Standstill::Seen& seen) const {
  if (!seen.hangs) return {};
  if (seen.in == Standstill::In::kOther) return kPerhaps;
  if (!loop_.joint || seen.in != Standstill::In::kDevices) return kByItself;
  return seen.too_long ? kForDevicesTooLong : kForDevices;
}

std::string HangWatch::words(const Standstill::Seen& seen, const LoopView& view) const {
  const std::string phase = view.phase ? view.phase->name : "";
  if (seen.in == Standstill::In::kFile && view.file) return tessera::text_of(*view.file);
  if (seen.in == Standstill::In::kInput && phase == kWaitForInput) return loop_.input(seen.seconds);
  if (seen.in == Standstill::In::kInput) return fmt::format("no batch of an evaluation for {:.0f} s", seen.seconds);
  if (seen.in == Standstill::In::kOther) {
    return fmt::format("the loop has not moved for {:.0f} s ({})", seen.seconds, phase.empty() ? "all else" : phase);
  }
  return fmt::format("no answer of the devices for {:.0f} s ({})", seen.seconds, phase);
}

void HangWatch::look(Standstill::Clock::time_point now) {
  const LoopView view = loop_.view();
  const Standstill::Seen seen = standstill_.look(view, now);
  const bool ends = seen.too_long && how(seen) == kByItself;
  bool all_end = false;
  try {
    tell(seen, view);
    if (!ends && asks_now()) {
      listen();
      all_end = seen.too_long && all_are_too_long();
    }
  } catch (const Error&) {
    // The coordinator does not answer. Where that lasts, the group ends the process.
  }
  if (!ends && !all_end) return;
  const std::string why = fmt::format("process {} on {} hangs: {}", members_->process_id(), host_, words(seen, view));
  end_(ends ? why : fmt::format("all {} processes wait for their devices; {}", members_->count(), why));
}

// Only changes: the coordinator keeps every value that was put.
void HangWatch::tell(const Standstill::Seen& seen, const LoopView& view) {
  std::string now = how(seen);
  if (told_ == now) return;
  const News news{now, host_, now.empty() ? "" : one_line(words(seen, view))};
  if (members_->leads()) say(members_->process_id(), news);
  members_->put(hang_key(members_->process_id()), text_of(news));
  told_ = std::move(now);
}

bool HangWatch::asks_now() const { return members_->leads() && (standstill_.in_phase() >= kAsksAfter || !heard_.empty()); }

void HangWatch::listen() {
  const std::map<std::string, std::string> told = members_->find_all(kHangs);
  for (int64_t process = 0; process < members_->count(); ++process) {
    if (process == members_->process_id()) continue;
    const auto found = told.find(hang_key(process));
    say(process, found == told.end() ? News() : parse(found->second));
  }
  const bool all = static_cast<int64_t>(heard_.size()) == members_->count() &&
                   std::ranges::none_of(heard_, [](const auto& one) { return is_by_itself(one.second.how); });
  if (all && !all_said_) {
    log_warning(fmt::format("all {} processes wait for their devices, and none of them for its input or a file; process 0: {}",
                            members_->count(), heard_.begin()->second.what));
  }
  all_said_ = all;
}

// On the console of the first process, what is new of one.
void HangWatch::say(int64_t process, const News& news) {
  const auto known = heard_.find(process);
  const bool hung = known != heard_.end() && is_by_itself(known->second.how), hangs = is_by_itself(news.how);
  const std::string name = fmt::format("process {} on {}", process, hung ? known->second.host : news.host);
  if (hangs && !hung) {
    const std::string end = timeout_.count() > 0 && news.how == kByItself
                                ? fmt::format("; where that lasts, it ends (--hang-timeout {})", timeout_.count())
                                : "";
    log_warning(fmt::format("{} hangs: {}{}", name, news.what, end));
    keep_(process, news.what);
  } else if (hung && !hangs) {
    log_note(fmt::format("{} goes on", name));
    keep_(process, "");
  }
  if (news.how.empty()) {
    heard_.erase(process);
  } else {
    heard_[process] = news;
  }
}

bool HangWatch::all_are_too_long() const {
  return static_cast<int64_t>(heard_.size()) == members_->count() &&
         std::ranges::all_of(heard_, [](const auto& one) { return one.second.how == kForDevicesTooLong; });
}

std::unique_ptr<HangWatch> watch_for_hangs(std::shared_ptr<group::Members> members, WatchedLoop loop,
                                           std::chrono::seconds timeout, HangWatch::Keep keep) {
  const auto end = [timeout](const std::string& why) {
    log_error(fmt::format(
        "{}: this process ends (--hang-timeout {}), and the run goes on from its last checkpoint when it is started again", why,
        timeout.count()));
    end_process(Exit::kPreempted);
  };
  return std::make_unique<HangWatch>(std::move(members), std::move(loop), timeout, std::move(keep), end, kBetweenLooks);
}

}  // namespace tessera::train
