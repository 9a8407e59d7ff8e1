#include "pages/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "pages/report/classes.h"
#include "pages/report/html_check.h"
#include "pages/report/made_run.h"
#include "pages/report/rasterise.h"
#include "pages/report/report.h"
#include "pages/report/sections.h"
#include "pjrt/chip.h"
#include "store/faulty_files.h"

namespace tessera::report {
namespace {

using ::testing::AllOf;
using testing::check_html;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HtmlFacts;
using testing::make_run;
using ::testing::Not;
using testing::slurp;
using testing::spill;
using testing::TempDir;

TEST(ClassFigures, CountWhatBecameOfTheImagesOfAClass) {
  train::EvaluationSummary evaluation;
  evaluation.classes = {"a,\"b\"", "c", "d"};
  evaluation.confusion = {{0, 0, 6}, {0, 1, 2}, {1, 0, 2}, {1, 1, 4}, {1, 3, 1}};  // 3: no answer
  const std::vector<ClassFigures> figures = class_figures(evaluation);
  ASSERT_EQ(figures.size(), 3u);
  EXPECT_EQ(figures[0].images, 8);
  EXPECT_DOUBLE_EQ(figures[0].recall(), 0.75);
  EXPECT_DOUBLE_EQ(figures[0].precision(), 0.75);
  EXPECT_DOUBLE_EQ(figures[1].recall(), 4.0 / 7);
  EXPECT_DOUBLE_EQ(figures[1].precision(), 4.0 / 6);
  EXPECT_DOUBLE_EQ(figures[1].f1(), 8.0 / 13);
  EXPECT_TRUE(std::isnan(figures[2].recall()));
  using Cell = metrics::ConfusionCell;
  EXPECT_THAT(most_confused(evaluation), ElementsAre(Cell{0, 1, 2}, Cell{1, 0, 2}, Cell{1, 3, 1}));
  EXPECT_EQ(confusion_csv(evaluation),
            "label,predicted,count\n\"a,\"\"b\"\"\",\"a,\"\"b\"\"\",6\n\"a,\"\"b\"\"\",c,2\nc,\"a,\"\"b\"\"\",2\nc,c,4\nc,no "
            "answer,1\n");
  EXPECT_THAT(classes_csv(evaluation), AllOf(HasSubstr("\"a,\"\"b\"\"\",8,0.75,0.75,0.75\n"), HasSubstr("\nd,0,,,\n")));
  evaluation.worst_by = "loss";
  evaluation.worst = {{4, "c/x.png", 1, 0, 2.5}, {5, "y", 1, -1, std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(worst_csv(evaluation), "path,label,predicted,loss\nc/x.png,c,\"a,\"\"b\"\"\",2.5\ny,c,,inf\n");
}

// `count` classes; class i is right i times and once taken for the next.
train::EvaluationSummary ladder(int32_t count) {
  train::EvaluationSummary out{"val", "val", 7, {{"prec@1", true, 0.5}}, 100};
  for (int32_t c = 0; c < count; ++c) {
    out.classes.push_back(fmt::format("class{:03}", c));
    if (c > 0) out.confusion.push_back({c, c, c});
    out.confusion.push_back({c, (c + 1) % count, 1});
  }
  return out;
}

TEST(ClassTables, ShowTheWholeMatrixUpToFiftyClasses) {
  EXPECT_THAT(confusion_table(ladder(50)).text, HasSubstr("class049"));
  EXPECT_EQ(confusion_table(ladder(51)).text, "");
  EXPECT_THAT(class_table(ladder(50)).text, AllOf(HasSubstr("class049"), HasSubstr("of each class")));
  const std::string lowest = class_table(ladder(60)).text;
  EXPECT_THAT(lowest, AllOf(HasSubstr("the 50 classes with the lowest recall, of 60"), HasSubstr("class000"),
                            HasSubstr("class049"), Not(HasSubstr("class050"))));
  EXPECT_THAT(confused_pairs(ladder(60)).text, AllOf(HasSubstr("class019"), Not(HasSubstr("class030"))));
}

TEST(ClassTables, CutLongNamesOffInTheMatrix) {
  train::EvaluationSummary evaluation = ladder(3);
  evaluation.classes[1] = std::string(200, 'x') + "<\"";
  const std::string name = std::string(200, 'x') + "&lt;&quot;",
                    box = "<span class=\"name\" title=\"" + name + "\">" + name + "</span>";
  EXPECT_THAT(confusion_table(evaluation).text,
              AllOf(HasSubstr("<th scope=\"col\">" + box), HasSubstr("<th scope=\"row\">" + box)));
}

TEST(WorstImages, HaveTheirLabelsOrTextWhereTheyAreOfNoSingleClass) {
  train::EvaluationSummary evaluation{"val", "val", 7, {{"mAP", true, 0.5}}, 2};
  evaluation.worst_by = "loss";
  evaluation.worst = {{0, "a.png", -1, -1, 2.5}, {1, "b.png", -1, -1, 1.5}};
  Pictures pictures;
  pictures.pictures.resize(2);
  pictures.pictures[0].caption = "cat, <dog>";
  EXPECT_THAT(evaluation_section(evaluation, pictures).text,
              AllOf(HasSubstr("loss 2.5<br>cat, &lt;dog&gt;<br>"), HasSubstr("loss 1.5<br><span")));
}

TEST(Report, ShowsTheRun) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  EXPECT_EQ(write_report({run}), run + "/report/index.html");
  const std::string html = slurp(run + "/report/index.html");
  HtmlFacts facts = check_html(html);
  // Two worst images, four of training, and pictures come with words.
  EXPECT_EQ(facts.elements["img"], 6);
  EXPECT_TRUE(facts.attributes.contains("alt"));
  EXPECT_EQ(facts.elements["h1"], 1);
  EXPECT_EQ(facts.elements["svg"], 5);
  for (const char* text : {"The run ended as planned", "Best prec@1", "cat, taken for dog with 97\u00a0%", "loss 3.25",
                           "cat/1.png", "Where the time went", "waiting for images", "tessera train x.toml", "tessera 0.2.0",
                           "value_range(-1, 1)", "1,234", "3.00 MiB of a device", "0.03 GFLOP/s"}) {
    EXPECT_THAT(facts.text, HasSubstr(text));
  }
  EXPECT_THAT(facts.text, AllOf(Not(HasSubstr("Not shown")), Not(HasSubstr("are not shown"))));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme"));
  EXPECT_EQ(slurp(run + "/report/val_confusion.csv"), "label,predicted,count\ncat,cat,1\ncat,dog,1\ndog,cat,1\ndog,dog,1\n");
  EXPECT_EQ(slurp(run + "/report/val_worst.csv"), "path,label,predicted,loss\ncat/1.png,cat,dog,3.25\ndog/0.png,dog,cat,2\n");
  EXPECT_FALSE(std::filesystem::exists(run + "/report/train.png"));
}

// Of devices that tell their memory and whose peak is known.
TEST(Report, SetsThePlanBesideWhatAChipDid) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  train::RunFacts facts = testing::facts_of("done");
  facts.platform = "cuda", facts.device_kind = "NVIDIA H200", facts.devices = 2;
  facts.flops = 1e12;
  facts.device_peak = 5 << 20;
  facts.device_memory = int64_t{141} << 30;
  spill(run + "/run.json", train::to_json(facts));
  const pjrt::Chip& chip = *pjrt::find_chip("h200");
  const std::string recipe = slurp(run + "/recipe.toml");
  for (const auto& [dtype, peak] : {std::pair{"f32", chip.f32_flops}, std::pair{"bf16", chip.bf16_flops}}) {
    spill(run + "/recipe.toml",
          fmt::format("total = \"100 steps\"\ndtype = \"{}\"\n{}", dtype, recipe.substr(recipe.find("[data]"))));
    write_report({run});
    const std::string text = check_html(slurp(run + "/report/index.html")).text;
    EXPECT_THAT(text, HasSubstr(fmt::format("{:.4g} images a second; {:.1f}\u00a0% of that was reached (MFU)", 2 * peak / 3e12,
                                            100 * 10 * 3e12 / (2 * peak))));
    for (const char* part : {"3.00 MiB of a device", "5.00 MiB", "141.00 GiB", "30 TFLOP/s of products on 2 devices"}) {
      EXPECT_THAT(text, HasSubstr(part)) << dtype;
    }
  }
}

// What the device made of the first batch, where the run left a file of it.
TEST(Report, ShowsTheMixedBatch) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  testing::write_square(run + "/first_batch.png", 90);
  write_report({run});
  const std::string html = slurp(run + "/report/index.html");
  EXPECT_EQ(check_html(html).elements["img"], 7);
  EXPECT_THAT(html, HasSubstr("<h3>The first batch, as the device mixed and erased it</h3>\n<img class=\"sheet small\""));
  spill(run + "/first_batch.png", "no picture");
  write_report({run});
  EXPECT_THAT(slurp(run + "/report/index.html"), Not(HasSubstr("as the device mixed")));
}

TEST(Report, OfTheSameRunIsTheSameBytes) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  write_report({run}, {dir / "a", true});
  write_report({run}, {dir / "b", true});
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "a")) {
    ++files;
    EXPECT_EQ(slurp(entry.path()), slurp(dir / ("b/" + entry.path().filename().string()))) << entry.path();
  }
  EXPECT_GE(files, 6);
}

TEST(Report, HostileNamesAreText) {
  const TempDir dir;
  const std::string script = "<script>alert(1)<", quotes = "\" onerror='x()' &amp; ' > {} {:d} `";
  const std::string run = make_run(dir.path(), "<b>one", {script, quotes});
  testing::write_metrics(run, {{0.5}, {2}, {2}});
  monitor::MetricWriter writer(run);
  writer.write(60,
               {{"<img src=x>/prec@1", 0.5}, {"<img src=x>/count", int64_t{3}}, {"\"/loss", 1.0}, {"\"/count", int64_t{3}}});
  train::RunFacts facts = testing::facts_of("stopped", "<i>SIG");
  facts.command = "tessera train '</pre><script>x</script>'";
  facts.device_kind = "\xff\xfe\x1b[2J<u>";
  spill(run + "/run.json", train::to_json(facts));
  spill(run + "/recipe.toml", slurp(run + "/recipe.toml") + "# </pre><script>\n");
  train::EvaluationSummary evil = testing::summary_of({script, quotes});
  evil.name = "../../evil<s>", evil.worst_by = "<em>", evil.worst[0].id = "\u202egnp.<script>";
  spill(run + "/evals/evil.last.json", train::to_json(evil));
  spill(run + "/evals/broken<i>.last.json", "{<script>");
  write_report({run}, {.png = true});
  const std::string html = slurp(run + "/report/index.html");
  HtmlFacts found = check_html(html);
  for (const char* element : {"b", "i", "s", "u", "em"}) EXPECT_FALSE(found.elements.contains(element)) << element;
  EXPECT_THAT(found.text, AllOf(HasSubstr("&lt;script&gt;alert(1)&lt;"), HasSubstr("&quot; onerror=&#39;x()&#39; &amp;amp;"),
                                HasSubstr("\\x1b[2J&lt;u&gt;"), HasSubstr("\\u202egnp")));
  EXPECT_THAT(html, HasSubstr("Content-Security-Policy\" content=\"default-src 'none'"));
  EXPECT_TRUE(std::filesystem::exists(run + "/report/______evil_s__confusion.csv"));
  const std::string other = make_run(dir.path(), "two<script>", {script, quotes}, "<script>");
  write_report({run, other}, {dir / "both"});
  check_html(slurp(dir / "both/index.html"));
}

TEST(Report, WithoutTheDataOrMetricsSaysSo) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  std::filesystem::remove(dir / "data/val/cat/1.png");
  spill(dir / "data/train/dog/0.png", "no image");
  write_report({run});
  HtmlFacts facts = check_html(slurp(run + "/report/index.html"));
  EXPECT_THAT(facts.text, HasSubstr("the data changed since the evaluation"));
  EXPECT_EQ(facts.elements["img"], 3) << "the worst ones are now others; one of training cannot be read";

  std::filesystem::remove_all(dir / "data");
  std::filesystem::remove(run + "/metrics.jsonl");
  std::filesystem::remove(run + "/run.json");
  write_report({run});
  facts = check_html(slurp(run + "/report/index.html"));
  EXPECT_EQ(facts.elements["img"], 0);
  EXPECT_THAT(facts.text, AllOf(HasSubstr("Nothing was measured yet"), HasSubstr("Not shown:"), HasSubstr("dog/0.png")));

  spill(run + "/recipe.toml", "this is no TOML");
  write_report({run});
  check_html(slurp(run + "/report/index.html"));
}

TEST(Report, LargeImagesAreMadeSmaller) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  std::string recipe = slurp(run + "/recipe.toml");
  recipe.replace(recipe.find("resize(8)"), 9, "resize(384, 192)");
  spill(run + "/recipe.toml", recipe);
  const SavedRun read = read_runs({run})[0];
  const Pictures pictures = training_pictures(read, 3);
  ASSERT_EQ(pictures.problem, "");
  ASSERT_EQ(pictures.pictures.size(), 3u);
  EXPECT_EQ(pictures.pictures[0].pixels.height(), 96);
  EXPECT_EQ(pictures.pictures[0].pixels.width(), 192);
  EXPECT_TRUE(pictures.pictures[0].uri.starts_with("data:image/jpeg;base64,"));
  EXPECT_TRUE(worst_pictures(read, read.evaluations[0]).pictures[0].uri.starts_with("data:image/png;base64,"));
}

TEST(Report, ComparesRuns) {
  const TempDir dir;
  const std::string one = make_run(dir.path(), "a/x", {"cat", "dog"}),
                    two = make_run(dir.path(), "b/x", {"cat", "dog"}, "2e-3");
  std::filesystem::remove(two + "/run.json");
  EXPECT_EQ(write_report({one, two}, {dir / "out"}), dir / "out/index.html");
  HtmlFacts facts = check_html(slurp(dir / "out/index.html"));
  EXPECT_EQ(facts.elements["svg"], 3) << "training_loss, val/prec@1, val/loss";
  EXPECT_THAT(facts.text, AllOf(HasSubstr("a/x, b/x"), HasSubstr("optimizer.lr"), HasSubstr("1e-3"), HasSubstr("2e-3"),
                                HasSubstr("75.00 %"), Not(HasSubstr("data.batch"))));
}

// A section of many keys that one recipe lacks is a row, beside the keys that both have.
TEST(Report, ASectionThatOneRecipeLacksIsOneRow) {
  const TempDir dir;
  const std::string one = make_run(dir.path(), "one", {"cat", "dog"}),
                    two = make_run(dir.path(), "two", {"cat", "dog"}, "2e-3");
  spill(two + "/recipe.toml",
        slurp(two + "/recipe.toml") + "[eval.test]\ntype = \"classification\"\n[eval.test.data]\nsource = \"a.csv\"\n");
  write_report({one, two}, {dir / "out"});
  const std::string html = slurp(dir / "out/index.html"), rows = html.substr(html.find("Keys of the recipes that differ"));
  EXPECT_THAT(rows, HasSubstr("<th scope=\"row\"><code>[eval.test]</code></th><td>–</td>"
                              "<td>data.source = &quot;a.csv&quot;, type = &quot;classification&quot;</td>"));
  EXPECT_THAT(rows, HasSubstr("<code>optimizer.lr</code></th><td>&quot;1e-3&quot;</td><td>&quot;2e-3&quot;</td>"));
  EXPECT_THAT(rows, Not(HasSubstr("<code>eval.test")));
}

TEST(Report, WhatWasNotMeasuredIsNoZero) {
  const TempDir dir;
  const std::string one = make_run(dir.path(), "one", {"cat", "dog"}), two = make_run(dir.path(), "two", {"cat", "dog"});
  std::filesystem::remove(two + "/metrics.jsonl");
  write_report({one, two}, {dir / "out"});
  EXPECT_THAT(slurp(dir / "out/index.html"),
              HasSubstr("<th scope=\"row\">two</th><td>0</td><td>–</td><td>–</td><td>–</td><td>–</td>"
                        "<td>–</td><td>–</td><td>1,234</td>"));
}

TEST(Report, AFullDiskIsOneErrorAndLeavesTheOldReport) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  write_report({run});
  const std::string before = slurp(run + "/report/index.html");
  testing::write_metrics(run, {{0.5}, {2}, {2}});
  int failures = 0;
  for (int64_t k = 0;; ++k) {
    testing::FaultyFiles files(store::local_files());
    files.fail_at(k, ENOSPC, true);
    try {
      write_report({run}, {}, files);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::kData);
      ++failures;
      EXPECT_TRUE(slurp(run + "/report/index.html") == before || k > 0);
      check_html(slurp(run + "/report/index.html"));
    }
    if (!files.fired()) break;
  }
  EXPECT_GT(failures, 5);
  EXPECT_NE(slurp(run + "/report/index.html"), before);
  for (const auto& entry : std::filesystem::directory_iterator(run + "/report")) {
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr("tmp"))) << "nothing half-written stays";
  }
}

// Where librsvg is not installed the report is written without curves as PNG.
TEST(Rasterise, DrawsCurvesWhereTheLibraryIs) {
  const TempDir dir;
  const std::string run = make_run(dir.path(), "one", {"cat", "dog"});
  const std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"4\" height=\"3\" viewBox=\"0 0 4 3\">"
      "<rect x=\"2\" y=\"0\" width=\"2\" height=\"3\" fill=\"#ff8000\"/></svg>";
  bool there = true;
  try {
    const image::Image picture = rasterise_svg(svg, 2);
    ASSERT_EQ(picture.width(), 8);
    ASSERT_EQ(picture.height(), 6);
    EXPECT_THAT(std::vector<int>(picture.row(5), picture.row(5) + 24),
                ElementsAre(255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,  //
                            255, 128, 0, 255, 128, 0, 255, 128, 0, 255, 128, 0));
    EXPECT_THROW(rasterise_svg("<svg", 2), Error);
    EXPECT_THROW(rasterise_svg(svg, 1e6), Error);
  } catch (const Error& error) {
    there = false;
    EXPECT_THAT(error.what(), HasSubstr("apt-get install librsvg2-2"));
  }
  write_report({run}, {.png = true});
  EXPECT_TRUE(std::filesystem::exists(run + "/report/index.html"));
  EXPECT_TRUE(std::filesystem::exists(run + "/report/val_worst.png"));
  EXPECT_EQ(std::filesystem::exists(run + "/report/curves.png"), there);
}

// What is copied from a page, as code is, stays as it was written.
TEST(Markup, NoLineEndsBetweenANumberAndItsPercentSign) {
  EXPECT_EQ(with_code("best: 99.72 %, after 10 % with `warmup=5 %`").text,
            "best: 99.72\u00a0%, after 10\u00a0% with <code>warmup=5 %</code>");
}

TEST(Markup, IsEscapedButForOurs) {
  Html html;
  html.add("<p>{} {:.1f} {}</p>", std::string("<&>\"'"), 1.25, Markup{"<b>x</b>"});
  html.add(with_code("say `a<b` and `c"));
  EXPECT_EQ(html.take().text, "<p>&lt;&amp;&gt;&quot;&#39; 1.2 <b>x</b></p>say <code>a&lt;b</code> and `c");
  const std::basic_string<unsigned char> bytes = {0xff, 0, 0x10, 0x20};
  EXPECT_EQ(data_uri("image/png", bytes), "data:image/png;base64,/wAQIA==");
}

}  // namespace
}  // namespace tessera::report
