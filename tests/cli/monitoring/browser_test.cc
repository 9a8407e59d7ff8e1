// The live page and TensorBoard's, as headless Chromium shows them, without a network.

#include "support/browser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "cli/board_page.h"
#include "support/tensorboard.h"

namespace tessera::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kReady = "document.body.dataset.ready === 'yes'";

// The chart of a step's seconds: its labels, how high its first curve is drawn at the last line that has all of them, and what it
// should be. z/secs/step has z/secs/transfer in it.
constexpr const char* kStacked = R"js((() => {
  const graph = board.charts.find((chart) => chart.title === 'Seconds of a step').graph;
  const parts = (row) => [1, 2, 3].map((column) => graph.getValue(row, column));
  let row = graph.numRows() - 1;
  while (parts(row).includes(null)) --row;
  const value = (name) => {
    const points = dataOf(board.chosen[0]).metrics[name];
    return points.value[points.step.indexOf(graph.getValue(row, 0))];
  };
  return [graph.getLabels(), graph.layout_.points[0][row].yval_stacked, value('z/secs/input') + value('z/secs/step')];
})())js";

class Browser : public Board {
 protected:
  void SetUp() override {
    if (!testing::has_browser()) GTEST_SKIP() << "chromium-headless-shell is not installed";
    Board::SetUp();
  }
  // Two finished runs that differ in one key.
  void train_two() const {
    ASSERT_EQ(run_program(train({"log=1 steps"}), folder_.path()).exit, 0);
    ASSERT_EQ(run_program({"train", "tiny.toml", "--workdir", "runs/other", "--no-report", "log=1 steps", "optimizer.lr=1e-3"},
                          folder_.path())
                  .exit,
              0);
  }
  static std::string address_of(const Page& page) {
    return "http://127.0.0.1:" + std::to_string(page.port) + "/?token=" + page.token;
  }
};

// Fetching from elsewhere would be an error.
TEST_F(Browser, DrawsThePageWithoutANetwork) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const Json seen =
      testing::visit_page({{"url", address_of(page)},
                           {"height", 4000},
                           {"steps",
                            {{{"wait", kReady}},
                             {{"wait", "board.charts.every((chart) => !chart.stale)"}},
                             {{"run", "document.body.innerText"}},
                             {{"run", "document.querySelectorAll('#charts article:not([hidden]) canvas').length"}},
                             {{"run", "document.getElementById('trouble').hidden"}},
                             {{"run", "[...document.images].filter((one) => one.naturalWidth > 0).length"}},
                             {{"run", kStacked}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  const std::string text = seen["values"][0];
  EXPECT_THAT(text, AllOf(HasSubstr("val/prec@1"), HasSubstr("Classes, and what they were taken for"),
                          HasSubstr("Training images as the model sees them"), HasSubstr("checkpoints/step_000000006")));
  EXPECT_THAT(text, HasSubstr("Compiled programs"));
  EXPECT_THAT(text, HasSubstr("train_step"));
  EXPECT_THAT(text, HasSubstr("y/hostcpu/process"));
  EXPECT_THAT(text, Not(HasSubstr("A step was planned to take"))) << "of a device's memory, which a CPU does not tell";
  EXPECT_GE(seen["values"][1].get<int>(), 2 * 12) << "two for each chart";
  EXPECT_EQ(seen["values"][2], true) << "no trouble";
  EXPECT_GE(seen["values"][3].get<int>(), 16) << "training images, and the worst";
  for (const char* title : {"Loss", "Scores", "Learning rate", "Norms", "Images a second", "Seconds of a step", "Utilisation",
                            "Time lost", "Memory of the run", "Memory of the machine", "Bytes read and written"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + title + "\n"));
  }
  const auto& [labels, lowest, sum] = seen["values"][4].get<std::tuple<std::vector<std::string>, double, double>>();
  EXPECT_THAT(labels, ::testing::ElementsAre("step", "z/secs/input", "z/secs/step without transfer", "z/secs/transfer"));
  EXPECT_NEAR(lowest, sum, 1e-6 * sum) << "one upon the other";
}

// 30 steps; the tenth was evaluated.
TEST_F(Browser, ShowsAFirstEvaluation) {
  ASSERT_EQ(run_program(train({"log=1 steps"}), folder_.path()).exit, 0);
  std::string lines;
  for (int step = 1; step <= 30; ++step) {
    Json line = {{"step", step}, {"training_loss", 1.0 / step}, {"y/devmem/dev0/bytes_in_use", 1 << 20}};
    if (step == 10) line.update(Json{{"val/prec@1", 0.5}, {"val/loss", 0.01}, {"val/count", 5}});
    lines += line.dump() + "\n";
  }
  write_file(folder_ / "runs/tiny/metrics.jsonl", lines);
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const std::string loss = "board.charts[0].graph", scores = "board.charts[1].graph";
  const Json seen =
      testing::visit_page({{"url", address_of(page)},
                           {"height", 4000},
                           {"steps",
                            {{{"wait", kReady}},
                             {{"run", scores + ".getOption('drawPoints', 'val/prec@1')"}},
                             {{"run", loss + ".getOption('drawPoints', 'training_loss')"}},
                             {{"run", scores + ".xAxisRange()"}},
                             {{"run", loss + ".yAxisRange()[0]"}},
                             {{"run", "document.body.innerText"}},
                             {{"run", "[...document.getElementById('axis').options].map((one) => one.disabled)"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  const Json& values = seen["values"];
  EXPECT_EQ(values[0], true) << "a dot";
  EXPECT_EQ(values[1], false) << "a line";
  EXPECT_NEAR(values[2][0].get<double>(), 0, 1);
  EXPECT_NEAR(values[2][1].get<double>(), 30, 1);
  EXPECT_LT(values[3].get<double>(), 0.0099) << "room below the lowest loss";
  EXPECT_THAT(values[4].get<std::string>(), HasSubstr("A step was planned to take")) << "where a device tells its memory";
  EXPECT_EQ(values[5], Json::parse("[false, true, true]")) << "the lines have neither epoch nor uptime";
}

// Each run's points stand where its own lines say.
TEST_F(Browser, DrawsCurvesOverStepsEpochsOrHours) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  // The places of the losses of a run in the first chart, and what they should be.
  const auto places = [](const std::string& axis, const std::string& of_step) {
    return "(() => { const choice = document.getElementById('axis'); choice.value = '" + axis +
           "'; choice.dispatchEvent(new Event('change')); const graph = board.charts[0].graph; "
           "return ['tiny', 'other'].map((run) => { const {metrics} = dataOf(run), of = (name, step) => "
           "metrics[name].value[metrics[name].step.indexOf(step)]; "
           "const column = graph.getLabels().indexOf('training_loss · ' + run), drawn = []; "
           "for (let row = 0; row < graph.numRows(); ++row) "
           "if (graph.getValue(row, column) !== null) drawn.push(graph.getValue(row, 0)); "
           "return [graph.getLabels()[0], drawn, metrics.training_loss.step.map((step) => " +
           of_step + ")]; }); })()";
  };
  const Json seen = testing::visit_page(
      {{"url", address_of(page)},
       {"steps",
        {{{"wait", kReady}},
         {{"run", "document.querySelectorAll('#runs input').forEach((box) => { if (!box.checked) box.click(); })"}},
         {{"wait", "board.charts[0].graph.getLabels().length === 5"}},
         {{"run", places("step", "step")}},
         {{"run", places("epochs", "of('epoch', step)")}},
         {{"run", places("hours", "of('uptime', step) / 3600")}},
         {{"run",
           "board.data.set('made', {metrics: {epoch: {step: [10, 20], value: [1, 3]}}}), "
           "placesOf('made', [5, 10, 15, 20, 30], 'epochs')"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  const Json& values = seen["values"];
  const std::vector<std::string> axes = {"step", "epochs", "hours"};
  for (size_t i = 0; i < axes.size(); ++i) {
    for (const Json& run : values[i + 1]) {
      EXPECT_EQ(run[0], axes[i]);
      EXPECT_EQ(run[1].size(), 6u) << axes[i];
      EXPECT_EQ(run[1], run[2]) << axes[i];
    }
  }
  EXPECT_NE(values[3][0][1], values[3][1][1]) << "two runs take different times";
  EXPECT_EQ(values[4], Json::parse("[1, 1, 2, 3, 3]")) << "straight between two known points";
}

TEST_F(Browser, RunsLieOverEachOtherOnLogAxesAndSmoothed) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const std::string loss = "board.charts[0].graph";
  const Json seen = testing::visit_page(
      {{"url", address_of(page)},
       {"steps",
        {{{"wait", kReady}},
         {{"run", loss + ".getOption('logscale')"}},
         {{"run", "document.querySelector('#charts article button').click(), " + loss + ".getOption('logscale')"}},
         {{"run", "document.querySelectorAll('#runs input').forEach((box) => { if (!box.checked) box.click(); })"}},
         {{"wait", loss + ".getLabels().length === 5 && document.getElementById('differences').innerText.includes('lr')"}},
         {{"run", loss + ".getLabels()"}},
         {{"run", "document.getElementById('differences').innerText"}},
         {{"run", loss + ".getValue(6, 1)"}},
         {{"run",
           "(() => { const bar = document.getElementById('smoothing'); bar.value = 0.9; bar.dispatchEvent(new Event('input')); "
           "return " +
               loss + ".getValue(6, 1); })()"}},
         {{"run", "board.data.get('other').metrics.training_loss.value"}},
         {{"run", "[[2e-5, 60], [0.64, 2.4]].map(([a, b]) => logTicks(a, b, 210, () => String).map((one) => one.v))"}},
         {{"run",
           "(() => { board.data.get('other').metrics.l2_first = {step: [1], value: [1]}; "
           "return curvesOf({match: (name) => name.startsWith('l2_'), stacked: true})"
           ".filter((one) => one.metric === 'l2_params').map((one) => String(one.dash)); })()"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  const Json& values = seen["values"];
  EXPECT_EQ(values[0], true) << "losses begin on a log axis";
  EXPECT_EQ(values[1], false);
  const auto labels = values[3].get<std::vector<std::string>>();
  EXPECT_THAT(labels, ::testing::UnorderedElementsAre("step", "training_loss · tiny", "val/loss · tiny",
                                                      "training_loss · other", "val/loss · other"));
  EXPECT_THAT(values[4].get<std::string>(), AllOf(HasSubstr("optimizer.lr"), HasSubstr("0.001")));
  EXPECT_NE(values[5], values[6]);
  // The mean of all six with weights 0.9^k, as TensorBoard's.
  double sum = 0, weights = 0, weight = 1;
  for (size_t i = values[7].size(); i-- > 0; weight *= 0.9) {
    sum += weight * values[7][i].get<double>();
    weights += weight;
  }
  EXPECT_NEAR(values[6].get<double>(), sum / weights, 1e-9);
  EXPECT_EQ(values[8], Json::parse("[[0.0001, 0.01, 1], [0.8, 1, 1.5, 2]]")) << "powers of ten where there are some";
  EXPECT_EQ(values[9], Json::parse(R"(["2,2", "2,2"])")) << "the same strokes, though one run has a figure more";
}

// A chart far below the window keeps its old curve until it is scrolled to; and however long drawing took, what somebody clicks on is
// done at once.
TEST_F(Browser, DrawsAgainOnlyWhatIsSeen) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const std::string last = "board.charts.filter((chart) => chart.graph && !chart.other).at(-1)";
  const Json seen = testing::visit_page(
      {{"url", address_of(page)},
       {"height", 500},
       {"steps",
        {{{"wait", kReady}},
         {{"wait", "board.charts[0].seen && " + last + ".seen === false"}},
         {{"run",
           "(() => { const draw = drawCharts; window.drawCharts = () => { draw(); board.drawing = 1e6; }; })(), void "
           "update()"}},
         {{"wait", "board.drawing === 1e6"}},
         {{"run", "document.querySelectorAll('#runs input').forEach((box) => { if (!box.checked) box.click(); })"}},
         {{"wait", "board.charts[0].graph.getLabels().length === 5"}},
         {{"run", last + ".stale && !" + last + ".graph.getLabels().join(' ').includes('other')"}},
         {{"run", last + ".box.scrollIntoView()"}},
         {{"wait", "!" + last + ".stale && " + last + ".graph.getLabels().join(' ').includes('other')"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  EXPECT_EQ(seen["values"][2], true);
}

// Seven pages that listened would use up a browser's connections to the server.
TEST_F(Browser, APageInTheBackgroundHoldsNoConnection) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const auto hide = [](bool hidden) {
    return fmt::format(
        "Object.defineProperty(document, 'hidden', {{configurable: true, get: () => {}}}); "
        "document.dispatchEvent(new Event('visibilitychange'))",
        hidden);
  };
  const Json seen = testing::visit_page({{"url", address_of(page)},
                                         {"steps",
                                          {{{"wait", kReady}},
                                           {{"wait", "events.readyState === EventSource.OPEN"}},
                                           {{"run", "window.before = events, true"}},
                                           {{"run", hide(true)}},
                                           {{"run", "before.readyState === EventSource.CLOSED && events === null"}},
                                           {{"run", hide(false)}},
                                           {{"wait", "events.readyState === EventSource.OPEN"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  EXPECT_EQ(seen["values"][2], true);
}

TEST_F(Browser, FitsAPhoneAndTheDark) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const Json steps = {{{"wait", kReady}},
                      {{"run", "document.documentElement.scrollWidth"}},
                      {{"run", "getComputedStyle(document.body).backgroundColor"}},
                      {{"run", "getComputedStyle(document.body).color"}},
                      {{"run", "getComputedStyle(document.getElementById('charts')).gridTemplateColumns.split(' ').length"}},
                      {{"run",
                        "Math.min(...[...document.querySelectorAll('button, input, select, summary')]"
                        ".map((one) => one.offsetHeight).filter((height) => height > 0))"}},
                      {{"run",
                        "[...document.querySelectorAll('#runs th.name')].map((one) => { const range = document.createRange(); "
                        "range.selectNodeContents(one.lastChild); "
                        "return range.getBoundingClientRect().top < one.firstChild.getBoundingClientRect().bottom; })"}}};
  const Json seen =
      testing::visit_pages({{{"url", address_of(page)}, {"width", 1400}, {"steps", steps}},
                            {{"url", address_of(page)}, {"width", 360}, {"height", 740}, {"dark", true}, {"steps", steps}}});
  for (const Json& one : seen) EXPECT_THAT(one["errors"], IsEmpty()) << one["errors"];
  const Json &wide = seen[0]["values"], &phone = seen[1]["values"];
  EXPECT_EQ(phone[0], 360) << "nothing sticks out";
  EXPECT_EQ(wide[1], "rgb(255, 255, 255)");
  EXPECT_EQ(phone[1], "rgb(13, 17, 23)");
  EXPECT_EQ(phone[2], "rgb(230, 237, 243)");
  EXPECT_GE(wide[3].get<int>(), 2) << "columns of curves";
  EXPECT_EQ(phone[3], 1);
  EXPECT_GE(phone[4].get<int>(), 24) << "for fingers";
  EXPECT_EQ(phone[5], Json::parse("[true, true]")) << "names of runs stand beside their colours";
}

// A run of 24 processes on a phone: one is slow, and one sends nothing. Then a run of one process.
TEST_F(Browser, ShowsWhichProcessIsSlow) {
  train_two();
  Json hosts = {{"at", 1000}, {"every", 48}, {"processes", Json::array()}};
  for (int i = 0; i < 24; ++i) {
    hosts["processes"].push_back({{"process", i},
                                  {"host", "a-host-with-a-long-name-" + std::to_string(i / 8)},
                                  {"step", 6},
                                  {"seen", i == 5 ? 600 : 990},
                                  {"input_wait", i == 3 ? 0.41 : 0.02},
                                  {"resident", 1 << 30}});
  }
  write_file(folder_ / "runs/tiny/hosts.json", hosts.dump());
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const std::string cells = "[...document.querySelectorAll('#hosts .strip li')]";
  // As /api/hosts has them on CPUs, one of them computing slowly.
  const std::string text = "process 1 on host waits 2 % of the time for other processes, the others 41 %";
  const Json slow = {{"processes",
                      {{{"process", 0}, {"input_wait", 0.01}, {"peer_wait", 0.41}},
                       {{"process", 1}, {"input_wait", 0.01}, {"peer_wait", 0.02}}}},
                     {"slowest", {{"process", 1}, {"holds_up", true}, {"text", text}}},
                     {"hanging", Json::array({"process 0 on host hangs: no batch for 12 s"})},
                     {"silent", Json::array()}};
  const Json seen = testing::visit_page(
      {{"url", address_of(page)},
       {"width", 360},
       {"height", 740},
       {"dark", true},
       {"steps",
        {{{"wait", kReady}},
         {{"run", "choose('tiny', true, true)"}},
         {{"wait", cells + ".length === 24"}},
         {{"run", "document.querySelector('#hosts details').open = true"}},
         {{"run", cells + ".filter((one) => one.classList.contains('slowest')).map((one) => one.innerText)"}},
         {{"run", "new Set(" + cells + ".map((one) => getComputedStyle(one).backgroundColor)).size"}},
         {{"run", "document.getElementById('hosts').innerText"}},
         {{"run", "document.documentElement.scrollWidth"}},
         {{"run", "(drawHosts(" + slow.dump() + "), document.getElementById('hosts').innerText)"}},
         {{"run", "choose('other', true, true)"}},
         {{"wait", "board.chosen.join() === 'other' && !document.querySelector('#hosts *')"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  const Json& values = seen["values"];
  EXPECT_EQ(values[2].dump(), R"(["3\n41 %"])");
  EXPECT_EQ(values[3], 2) << "its colour, and that of the others";
  EXPECT_THAT(
      values[4].get<std::string>(),
      AllOf(HasSubstr("Process 3 on a-host-with-a-long-name-0 waits 41 % of the time for its input, the others 2 %, and "
                      "wait for it."),
            HasSubstr("Process 5 on a-host-with-a-long-name-0 was last heard of 400 s ago."), HasSubstr("1 GiB"),
            HasSubstr("Which one computes slowly cannot be told")));
  EXPECT_EQ(values[5], 360) << "nothing sticks out";
  EXPECT_THAT(values[6].get<std::string>(),
              AllOf(HasSubstr("Process 0 on host hangs: no batch for 12 s."),
                    HasSubstr("Process 1 on host waits 2 % of the time for other processes, the others 41 %, and wait for it."),
                    Not(HasSubstr("cannot be told"))));
}

// A table that is wider than a phone is scrolled in its box, and breaks no words.
TEST_F(Browser, KeepsWordsOfTablesWholeOnAPhone) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const std::string key = "[...document.querySelectorAll('#differences th')].find((one) => one.innerText === 'optimizer.lr')";
  const Json seen = testing::visit_page(
      {{"url", address_of(page)},
       {"width", 360},
       {"height", 740},
       {"steps",
        {{{"wait", kReady}},
         {{"run", "document.querySelectorAll('#runs input').forEach((box) => { if (!box.checked) box.click(); })"}},
         {{"wait", key}},
         {{"run", "(() => { const range = document.createRange(); range.selectNodeContents(" + key +
                      "); return new Set([...range.getClientRects()].map((one) => one.top)).size; })()"}},
         {{"run", "getComputedStyle(document.querySelector('#differences .wide td')).overflowWrap"}},
         {{"run", "document.documentElement.scrollWidth"}},
         {{"run", "['runs', 'head'].map((id) => document.getElementById(id).innerText.replaceAll('\\u00a0', '~')).join()"}}}}});
  EXPECT_THAT(seen["errors"], IsEmpty()) << seen["errors"];
  EXPECT_EQ(seen["values"][1], 1) << "line of text";
  EXPECT_EQ(seen["values"][2], "break-word");
  EXPECT_EQ(seen["values"][3], 360);
  EXPECT_THAT(seen["values"][4].get<std::string>(), AllOf(HasSubstr("~%"), Not(HasSubstr(" %"))));
}

TEST_F(Browser, FollowsARunThatTrainsAndTellsIt) {
  RunningProgram run(train({"--board=0", "total=1000000 steps", "monitor.profile=none", "checkpoint.every=1000000 steps"}),
                     folder_.path());
  const Page page(run);
  ASSERT_NE(page.port, 0) << run.wait().err;
  const auto button = [](const std::string& title) {
    return "[...document.querySelectorAll('#head button')].find((one) => one.innerText === '" + title + "')";
  };
  const std::string answer = "document.querySelector('#head [role=status]').innerText";
  const Json seen = testing::visit_page({{"url", address_of(page)},
                                         {"steps",
                                          {{{"wait", kReady}},
                                           {{"wait", button("Save a checkpoint")}},
                                           {{"run", "window.before = board.runs[0].step"}},
                                           {{"wait", "board.runs[0].step > window.before"}},  // told by the server, not asked
                                           {{"run", button("Save a checkpoint") + ".click()"}},
                                           {{"wait", answer + ".startsWith('written: ')"}},
                                           {{"run", answer}},
                                           {{"run", "window.confirm = () => true; " + button("Stop") + ".click()"}},
                                           {{"wait", "document.querySelector('#trouble').innerText !== ''"}},
                                           {{"run", "document.querySelector('#trouble').innerText"}}}}});
  const std::string written = seen["values"][2];
  EXPECT_TRUE(fs::exists(folder_ / written.substr(written.find("runs/tiny")) / "COMMIT")) << written;
  EXPECT_THAT(seen["values"][4].get<std::string>(), HasSubstr("does not answer any more"));
  EXPECT_EQ(run.wait().exit, 130);
}

TEST_F(Browser, ShowsNothingWithoutTheToken) {
  train_two();
  RunningProgram board({"board", "runs", "--address", "0"}, folder_.path());
  const Page page(board);
  const std::string bare = "http://127.0.0.1:" + std::to_string(page.port);
  for (const std::string& address : {bare + "/", bare + "/?token=0123456789abcdef", bare + "/api/runs"}) {
    const Json seen =
        testing::visit_page({{"url", address}, {"steps", {{{"wait", "document.body"}}, {{"run", "document.body.innerText"}}}}});
    EXPECT_THAT(seen["values"][0].get<std::string>(), AllOf(HasSubstr("token"), Not(HasSubstr("tiny")))) << address;
  }
}

#ifdef TESSERA_HAS_TENSORBOARD
// A real server of TensorBoard, and each of its tabs that a run writes for.
TEST_F(Browser, ShowsARunInEveryTabOfTensorBoard) {
  const std::string data = "data={source='folder(val)', pp='decode | central_crop(8) | value_range(-1, 1)'}";
  const std::string near = "eval.near={type='knn', k=3, every='6 steps', " + data +
                           ", train={source='folder(train)', pp='decode | central_crop(8) | value_range(-1, 1)'}}";
  ASSERT_EQ(run_program(train({"log=1 steps", "monitor.histograms=2 steps", near}), folder_.path()).exit, 0);
  ASSERT_EQ(
      run_program({"train", "tiny.toml", "--workdir", "runs/other", "--no-report", "optimizer.lr=1e-3"}, folder_.path()).exit,
      0);
  const Json seen = testing::browse_tensorboard(folder_ / "runs", {{"scalars", {"training_loss", "val"}},
                                                                   {"images", {"first_batch", "val"}},
                                                                   {"distributions", {"gradients"}},
                                                                   {"histograms", {"gradients", "updates"}},
                                                                   {"text", {"model", "recipe", "patch_embed/kernel"}},
                                                                   {"hparams", {"tiny/tb", "other/tb", "optimizer.lr"}},
                                                                   {"graphs", {"blocks", "head"}},
                                                                   {"projector", {"near at step 6", "Points:\n10\n"}}});
  for (const auto& [tab, what] : seen.items()) EXPECT_THAT(what["errors"], IsEmpty()) << tab << " " << what["errors"];
  EXPECT_GE(seen["images"]["pictures"].get<int>(), 1);
  for (const char* tab : {"scalars", "distributions", "histograms", "graphs"})
    EXPECT_GE(seen[tab]["drawings"].get<int>(), 1) << tab;
}
#endif

}  // namespace
}  // namespace tessera::cli
