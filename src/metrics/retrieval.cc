#include "metrics/retrieval.h"

#include "base/error.h"
#include "base/parallel.h"
#include "metrics/linear.h"

namespace tessera::metrics {
namespace {

constexpr int64_t kBlockRows = 64;

// For each row of `asked` the place, from 0, of the first of its own among the rows of `known`, nearest first. own(i, j):
// whether row j of `known` is row i's.
template <class Own>
std::vector<int64_t> places(const Features& asked, const Features& known, const Own& own) {
  std::vector<int64_t> result(static_cast<size_t>(asked.rows()));
  const int64_t blocks = (asked.rows() + kBlockRows - 1) / kBlockRows;
  parallel_for(blocks, thread_count(0, blocks), [&](int64_t block, int) {
    const int64_t begin = block * kBlockRows, rows = std::min(kBlockRows, asked.rows() - begin);
    const RowMatrixF similar = as_matrix(asked).middleRows(begin, rows) * as_matrix(known).transpose();
    for (int64_t i = 0; i < rows; ++i) {
      // The nearest of its own, and then how many are before that.
      int64_t best = -1;
      for (int64_t j = 0; j < known.rows(); ++j) {
        if (own(begin + i, j) && (best < 0 || similar(i, j) > similar(i, best))) best = j;
      }
      int64_t before = 0;
      for (int64_t j = 0; j < known.rows() && best >= 0; ++j) {
        before += similar(i, j) > similar(i, best) || (similar(i, j) == similar(i, best) && j < best);
      }
      result[static_cast<size_t>(begin + i)] = best < 0 ? known.rows() : before;
    }
  });
  return result;
}

std::array<double, 3> recalls(const std::vector<int64_t>& places, int64_t last) {
  std::array<double, 3> shares{};
  for (size_t k = 0; k < kRecallAt.size(); ++k) {
    const auto found =
        std::count_if(places.begin(), places.end(), [&](int64_t place) { return place < std::min(kRecallAt[k], last); });
    shares[k] = static_cast<double>(found) / static_cast<double>(places.size());
  }
  return shares;
}

}  // namespace

Recalls retrieval_recalls(const Features& images, const Features& texts, const std::vector<int64_t>& image_of) {
  TESSERA_CHECK(images.width == texts.width && static_cast<int64_t>(image_of.size()) == texts.rows());
  TESSERA_CHECK(images.rows() > 0 && texts.rows() > 0);
  const auto owner = [&](int64_t text) { return image_of[static_cast<size_t>(text)]; };
  return {recalls(places(images, texts, [&](int64_t image, int64_t text) { return owner(text) == image; }), texts.rows()),
          recalls(places(texts, images, [&](int64_t text, int64_t image) { return owner(text) == image; }), images.rows())};
}

Features class_embeddings(const Features& texts, const std::vector<int32_t>& class_of_text, int64_t classes) {
  TESSERA_CHECK(static_cast<int64_t>(class_of_text.size()) == texts.rows());
  RowMatrix sums = RowMatrix::Zero(classes, texts.width);
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  const auto rows = as_matrix(texts);
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const int32_t label = class_of_text[static_cast<size_t>(i)];
    sums.row(label) += rows.row(i).cast<double>();
    ++counts[static_cast<size_t>(label)];
  }
  Features embeddings{texts.width, {}};
  for (int64_t c = 0; c < classes; ++c) {
    TESSERA_CHECK(counts[static_cast<size_t>(c)] > 0, "class {} has no text", c);
    const Eigen::RowVectorXd mean = sums.row(c) / static_cast<double>(counts[static_cast<size_t>(c)]);
    const double length = 1e-8 + mean.norm();
    for (const double value : mean) embeddings.values.push_back(static_cast<float>(value / length));
  }
  return embeddings;
}

std::vector<int32_t> nearest_classes(const Features& images, const Features& embeddings) {
  TESSERA_CHECK(images.width == embeddings.width);
  const RowMatrixF scores = as_matrix(images) * as_matrix(embeddings).transpose();
  std::vector<int32_t> nearest;
  for (Eigen::Index i = 0; i < scores.rows(); ++i) nearest.push_back(largest(scores.row(i)));
  return nearest;
}

}  // namespace tessera::metrics
