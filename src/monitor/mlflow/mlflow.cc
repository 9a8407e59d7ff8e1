// A run on MLflow's tracking server. The workdir keeps the run's id (mlflow.json), so that all starts are one run there.
//
// metrics.jsonl is what the server is to have. Whenever the server is reached, first or again, it is asked which points it has,
// and gets those of metrics.jsonl that it lacks; from then on it gets each line as it comes. So an outage costs nothing but the
// time until the server is back, or until the run's next start.
//
// Points cannot be deleted there, and a second point of a key and step would stand beside the first. Those that a killed start
// sent after its last checkpoint stay, and are not sent again, since a run that goes on repeats its steps. Its last request may
// still be at work when the next start asks, so mlflow.json names the last point of each before it goes, and the next start
// waits for that point. Where it does not (its
// length was changed, and so its learning rate), which the training loss shows, the new points stand beside the old.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/system/environment.h"
#include "base/text/json.h"
#include "monitor/mlflow/client.h"
#include "monitor/mlflow/names.h"
#include "monitor/sinks/earlier_rows.h"
#include "monitor/sinks/sink.h"
#include "store/small_file.h"

namespace tessera::monitor {
namespace {

using Clock = std::chrono::steady_clock;

// Lines that come at a faster pace are sent together.
constexpr auto kPace = std::chrono::seconds(1);
constexpr const char* kLoss = "training_loss";
// How long a request without a reply may still be at work on the server.
constexpr std::chrono::milliseconds kAtWork{4'000}, kAskAgain{100};
// After a failure the server is left alone for so long, twice as long after the next.
constexpr auto kFirstPause = std::chrono::seconds(1), kLongestPause = std::chrono::seconds(60);

std::optional<double> numeric_value(const MetricValue& value) {
  if (std::holds_alternative<std::string>(value)) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  // As metrics.jsonl has it.
  if (const auto* number = std::get_if<float>(&value)) return std::strtod(fmt::format("{}", *number).c_str(), nullptr);
  return std::get<double>(value);
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string text_of(const HyperParameter& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return mlflow_text(std::get<std::string>(value), kMlflowParam);
}

const char* status_of(Ending ending) {
  switch (ending) {
    case Ending::kComplete: return "FINISHED";
    case Ending::kStopped: return "KILLED";
    default: return "FAILED";
  }
}

class Mlflow final : public Sink {
 public:
  explicit Mlflow(store::FileSystem& files) : files_(files) {}
  // Of a run that ends without a word: a bug of ours.
  ~Mlflow() override {
    if (params_ && !ended_) end(RunEnd{Ending::kFailed, static_cast<int>(Exit::kInternal)}, start_.time);
  }

  // The server is first asked when the recipe's keys are known, which a new run has.
  void begin(const RunStart& start) override { start_ = start; }

  void write(const Record& record) override {
    if (const auto* parameters = std::get_if<HyperParameters>(&record.content)) return set_params(*parameters);
    if (const auto* scalars = std::get_if<Scalars>(&record.content)) return add(record, *scalars);
    if (const auto* how = std::get_if<RunEnd>(&record.content)) end(*how, record.time);
  }

 private:
  void set_params(const HyperParameters& parameters) {
    std::map<std::string, std::string> params;  // a key once
    for (const auto& [key, value] : parameters.values) params.emplace(mlflow_key(key), text_of(value));
    params_.emplace(params.begin(), params.end());
    attempt([] {});
  }

  void add(const Record& record, const Scalars& scalars) {
    last_step_ = record.step;
    taken_.push_back(record.step);
    if (online_ && record.step <= sent_through_) return;  // of metrics.jsonl already
    MetricRow row{record.step, {}};
    for (const Metric& metric : scalars.metrics) {
      if (const auto value = numeric_value(metric.value)) row.values[metric.name] = *value;
    }
    add_row(row, record.time);
    if (waiting_.size() >= kMlflowMaxPoints || Clock::now() - sent_at_ >= kPace) attempt([this] { send(); });
  }

  void end(const RunEnd& how, double time) {
    ended_ = true;
    pause_until_ = {};
    attempt([&] {
      add_lost();
      send();
      // A finished run that only caught up ended with its last line.
      client_->set_status(run_, status_of(how.ending), last_step_ < 0 && last_time_ > 0 ? last_time_ : time);
    });
    // Of a finished run, which only catches up, the outage was told just now.
    if (!online_ && last_step_ >= 0) log_warning("mlflow: the server lacks figures of this run; its next start sends them");
  }

  // Reaches the server first where it is not. What fails is one warning, and tried again after a while.
  template <class Work>
  void attempt(Work&& work) {
    if (Clock::now() < pause_until_) return forget_waiting();
    try {
      if (!online_) connect();
      work();
      pause_ = kFirstPause;
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      fail(known ? known->message() : error.what());
    }
  }

  void fail(const std::string& why) {
    online_ = false;
    forget_waiting();
    pause_until_ = Clock::now() + pause_;
    pause_ = std::min<Clock::duration>(2 * pause_, kLongestPause);
    if (std::exchange(warned_, true)) return;
    log_warning(fmt::format(
        "mlflow: {}; the run goes on, and the server gets what it lacks when it is back, or at the next start", why));
  }
  // metrics.jsonl has it.
  void forget_waiting() {
    if (!online_) waiting_.clear();
  }

  // ---- the run ----

  std::string state_path() const { return store::join_path(start_.workdir, "mlflow.json"); }

  void read_state() {
    run_ = environment_variable("MLFLOW_RUN_ID");
    if (!files_.info(state_path())) return;
    const nlohmann::json state = read_json(store::read_small_file(files_, state_path())).value;
    run_ =
        state.is_object() && state.contains("run_id") && state["run_id"].is_string() ? state["run_id"].get<std::string>() : "";
    if (run_.empty() || !state.contains("sending")) return;
    const nlohmann::json& last = state["sending"];
    if (last.contains("key") && last["key"].is_string() && last.contains("step") && last["step"].is_number_integer()) {
      unanswered_ = {last["key"].get<std::string>(), last["step"].get<int64_t>()};
    }
  }

  void write_state() {
    nlohmann::json state = {{"run_id", run_}};
    if (unanswered_) state["sending"] = {{"key", unanswered_->first}, {"step", unanswered_->second}};
    store::write_atomic(files_, state_path(), state.dump() + "\n");
  }

  // Whether a run there is this one. One that starts from the beginning with other keys is another.
  bool goes_on(const MlflowRunInfo& run) const {
    if (!run.active) return false;
    return start_.kept_step >= 0 || std::ranges::all_of(*params_, [&](const auto& param) {
             const auto had = run.params.find(param.first);
             return had == run.params.end() || had->second == param.second;
           });
  }

  void connect() {
    if (!client_) client_.emplace(mlflow_server());
    if (run_.empty()) read_state();
    std::optional<MlflowRunInfo> run = run_.empty() ? std::nullopt : client_->find_run(run_);
    if (run && goes_on(*run)) {
      client_->set_status(run_, "RUNNING");
      await_unanswered();
      run = client_->find_run(run_);
      if (!run) throw data_error("the server does not know the run any more");
    } else {
      run = MlflowRunInfo{create_run(), true, {}, {}};
    }
    // They never change there: a key that changed between two starts stays what it was.
    MlflowPairs lacking;
    std::ranges::copy_if(*params_, std::back_inserter(lacking),
                         [&](const auto& param) { return !run->params.contains(param.first); });
    client_->log_params(run_, lacking);
    send_lacking(*run);
    online_ = true;
  }

  std::string create_run() {
    MlflowPairs tags = {{"mlflow.source.name", mlflow_text(start_.command, kMlflowTag)},
                        {"mlflow.source.type", "LOCAL"},
                        {"mlflow.user", environment_variable("LOGNAME", environment_variable("USER"))},
                        {"tessera.version", mlflow_text(start_.version, kMlflowTag)}};
    std::erase_if(tags, [](const auto& tag) { return tag.second.empty(); });
    run_ = client_->create_run(client_->experiment(), std::string(store::last_part(start_.workdir)),
                               start_.time - start_.uptime, tags);
    unanswered_.reset();
    write_state();
    return run_;
  }

  // Until the request that got no reply, of this start or of one that was killed, is through, or has had its time: the server
  // never got it then.
  void await_unanswered() {
    if (!unanswered_) return;
    const auto& [key, step] = *unanswered_;
    for (const auto until = Clock::now() + kAtWork; Clock::now() < until; std::this_thread::sleep_for(kAskAgain)) {
      if (client_->points(run_, key).contains(step)) break;
    }
    unanswered_.reset();
  }

  // ---- points ----

  const double* there(const std::string& key, int64_t step) const {
    const auto points = there_.find(key);
    if (points == there_.end()) return nullptr;
    const auto point = points->second.find(step);
    return point == points->second.end() ? nullptr : &point->second;
  }

  // Points that the server has are left out.
  void add_row(const MetricRow& row, double time) {
    last_time_ = time;
    const auto loss = row.values.find(kLoss);
    const double* had = there(kLoss, row.step);
    const bool repeated = !had || loss == row.values.end() || same(*had, loss->second);
    for (const auto& [name, value] : row.values) {
      std::string key = mlflow_key(name);
      if (name == "step" || (repeated && there(key, row.step))) continue;
      waiting_.push_back({std::move(key), value, std::llround(time * 1000), row.step});
    }
  }

  void send() {
    for (size_t begin = 0; begin < waiting_.size(); begin += kMlflowMaxPoints) {
      send_request(std::span(waiting_).subspan(begin, std::min(kMlflowMaxPoints, waiting_.size() - begin)));
    }
    waiting_.clear();
    sent_at_ = Clock::now();
  }

  void send_request(std::span<const MlflowPoint> points) {
    unanswered_ = {points.back().key, points.back().step};
    write_state();
    try {
      client_->log_metrics(run_, points);
    } catch (const http::NotReached&) {
      unanswered_.reset();
      write_state();
      throw;
    }
    unanswered_.reset();
  }

  // Lines that the queue had no room for.
  void add_lost() {
    for (const MetricRow& row : read_metrics(store::join_path(start_.workdir, "metrics.jsonl"), files_)) {
      if (row.step > last_step_) break;
      if (row.step > sent_through_ && !std::ranges::binary_search(taken_, row.step)) add_row(row, time_of(row, start_));
    }
  }

  // All of metrics.jsonl that the server does not have.
  void send_lacking(const MlflowRunInfo& run) {
    there_.clear();
    for (const std::string& key : run.metrics) there_[key] = client_->points(run.id, key);
    waiting_.clear();
    for (const MetricRow& row : read_metrics(store::join_path(start_.workdir, "metrics.jsonl"), files_)) {
      if (row.step > std::max(start_.kept_step, last_step_)) break;
      add_row(row, time_of(row, start_));
      sent_through_ = row.step;
    }
    send();
    // What is left are points that a killed start sent.
    for (auto& [key, points] : there_) points.erase(points.begin(), points.upper_bound(sent_through_));
  }

  store::FileSystem& files_;
  RunStart start_;
  std::optional<MlflowPairs> params_;
  std::optional<MlflowClient> client_;
  std::string run_;
  std::optional<std::pair<std::string, int64_t>> unanswered_;  // the last point, key and step, of a request without a reply
  bool online_ = false, ended_ = false, warned_ = false;
  int64_t last_step_ = -1;      // of the records so far
  double last_time_ = 0;        // of points so far
  int64_t sent_through_ = -1;   // of metrics.jsonl
  std::vector<int64_t> taken_;  // steps of the records so far
  std::vector<MlflowPoint> waiting_;
  std::map<std::string, std::map<int64_t, double>> there_;  // by key and step, what the server has of steps to come
  Clock::time_point sent_at_{}, pause_until_{};
  Clock::duration pause_ = kFirstPause;
};

}  // namespace

const SinkKind kMlflow = {"mlflow", "a run on the server that MLFLOW_TRACKING_URI names",
                          [](store::FileSystem& files) -> std::unique_ptr<Sink> { return std::make_unique<Mlflow>(files); }};

}  // namespace tessera::monitor
