// Attention and its gradient against the formulas in f64.

#include "host/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/kernels_testing.h"

namespace tessera::host {
namespace {

using Doubles = std::vector<double>;

// Everything of attention, in f64; dout is taken as given.
struct Reference {
  Doubles out, dq, dk, dv;
  double largest_score = 0;

  Reference(const AttentionShape& s, const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
            const std::vector<float>& dout)
      : out(q.size()), dq(q.size()), dk(k.size()), dv(k.size()) {
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.heads; ++h) {
        for (int64_t i = 0; i < s.queries; ++i) add_query(s, b, h, i, q, k, v, dout);
      }
    }
  }

 private:
  void add_query(const AttentionShape& s, int64_t b, int64_t h, int64_t i, const std::vector<float>& q,
                 const std::vector<float>& k, const std::vector<float>& v, const std::vector<float>& dout) {
    const auto at = [&](int64_t tokens, int64_t token, int64_t x) {
      return static_cast<size_t>(((b * tokens + token) * s.heads + h) * s.width + x);
    };
    const auto query = [&](int64_t x) { return at(s.queries, i, x); };
    const double scale = 1 / std::sqrt(static_cast<double>(s.width));
    Doubles p(static_cast<size_t>(s.keys)), dp(p.size());
    double greatest = -1e300, sum = 0, mean = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      for (int64_t x = 0; x < s.width; ++x) {
        p[static_cast<size_t>(j)] += static_cast<double>(q[query(x)]) * k[at(s.keys, j, x)] * scale;
        dp[static_cast<size_t>(j)] += static_cast<double>(dout[query(x)]) * v[at(s.keys, j, x)];
      }
      greatest = std::max(greatest, p[static_cast<size_t>(j)]);
      largest_score = std::max(largest_score, std::abs(p[static_cast<size_t>(j)]));
    }
    for (double& x : p) sum += x = std::exp(x - greatest);
    for (size_t j = 0; j < p.size(); ++j) mean += (p[j] /= sum) * dp[j];
    for (int64_t j = 0; j < s.keys; ++j) {
      const double probability = p[static_cast<size_t>(j)];
      const double ds = probability * (dp[static_cast<size_t>(j)] - mean) * scale;
      for (int64_t x = 0; x < s.width; ++x) {
        const size_t key = at(s.keys, j, x);
        out[query(x)] += probability * v[key];
        dq[query(x)] += ds * k[key];
        dk[key] += ds * q[query(x)];
        dv[key] += probability * dout[query(x)];
      }
    }
  }
};

void expect_close(const std::vector<float>& got, const Doubles& want, const char* what, double tolerance = 3e-6) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(got[i] - want[i]));
    size = std::max(size, std::abs(want[i]));
  }
  EXPECT_LE(error, tolerance * size) << what;
}

// The arrays of a shape; `scale` multiplies the queries.
struct Arrays {
  explicit Arrays(const AttentionShape& s, float scale = 1)
      : q(s.dtype, scaled(normal_numbers(s.batch * s.queries * s.heads * s.width, 1), scale)),
        k(s.dtype, normal_numbers(s.batch * s.keys * s.heads * s.width, 2)),
        v(s.dtype, normal_numbers(s.batch * s.keys * s.heads * s.width, 3)),
        dout(s.dtype, normal_numbers(s.batch * s.queries * s.heads * s.width, 4)),
        out(s.dtype, q.read()),
        dq(s.dtype, q.read()),
        dk(s.dtype, k.read()),
        dv(s.dtype, k.read()) {}
  void run(const AttentionShape& s, int threads) {
    attention(s, q.data(), k.data(), v.data(), out.data(), on_threads(threads));
    attention_gradient(s, q.data(), k.data(), v.data(), dout.data(), dq.data(), dk.data(), dv.data(), on_threads(threads));
  }
  Reference reference(const AttentionShape& s) { return {s, q.read(), k.read(), v.read(), dout.read()}; }

  Numbers q, k, v, dout, out, dq, dk, dv;

 private:
  static std::vector<float> scaled(std::vector<float> numbers, float scale) {
    for (float& x : numbers) x *= scale;
    return numbers;
  }
};

constexpr AttentionShape kShapes[] = {{2, 3, 16, 16, 32}, {1, 2, 196, 196, 64}, {2, 2, 5, 7, 9},
                                      {3, 1, 1, 50, 20},  {1, 1, 17, 1, 1},     {1, 4, 33, 49, 80}};

TEST(Attention, FollowsTheFormulas) {
  for (AttentionShape s : kShapes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      s.dtype = dtype;
      s.stride = s.heads * s.width;
      SCOPED_TRACE(testing::Message() << s.batch << " x " << s.heads << " heads, " << s.queries << " queries, " << s.keys
                                      << " keys, width " << s.width << ", " << dtype_name(dtype));
      Arrays x(s);
      x.run(s, 2);
      const Reference want = x.reference(s);
      // In bf16 P and dS are rounded before they are multiplied, and so are the results: each by 2^-8 of the largest at most.
      const double tolerance = dtype == DType::kBF16 ? 3 * 0x1p-8 : 3e-6;
      expect_close(x.out.read(), want.out, "out", tolerance);
      expect_close(x.dq.read(), want.dq, "dq", tolerance);
      expect_close(x.dk.read(), want.dk, "dk", tolerance);
      expect_close(x.dv.read(), want.dv, "dv", tolerance);
    }
  }
}

TEST(Attention, TakesScoresFarApart) {
  const AttentionShape s{1, 1, 6, 40, 16};
  Arrays x(s, 400);
  x.run(s, 1);
  const Reference want = x.reference(s);
  // The roundings of a score's 16 products add up as a random walk does, to four of 2^-24. That error of a score is the relative
  // error of its probability.
  expect_close(x.out.read(), want.out, "out", want.largest_score * 4 * 0x1p-24);
  for (const float value : x.dq.read()) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, DoesNotDependOnTheThreads) {
  const AttentionShape s{3, 5, 20, 20, 24};
  Arrays one(s), three(s);
  one.run(s, 1);
  three.run(s, 3);
  EXPECT_EQ(one.out.read(), three.out.read());
  EXPECT_EQ(one.dk.read(), three.dk.read());
}

TEST(Attention, ANaNStaysOne) {
  const AttentionShape s{1, 1, 4, 4, 8};
  Arrays x(s);
  std::vector<float> q = x.q.read();
  q[0] = std::nanf("");
  x.q = Numbers(s.dtype, q);
  x.run(s, 1);
  EXPECT_TRUE(std::isnan(x.out.read()[0]));
  EXPECT_TRUE(std::isnan(x.dk.read()[0]));
}

// Each query has a score with it, of a place in the row before which and behind which are numbers.
TEST(Attention, ANaNOfAKeyIsOneOfAllQueries) {
  const AttentionShape s{1, 1, 4, 40, 8};
  for (const size_t key : {0, 17, 39}) {
    Arrays x(s);
    std::vector<float> k = x.k.read();
    k[key * 8] = std::nanf("");
    x.k = Numbers(s.dtype, k);
    x.run(s, 1);
    for (const float value : x.out.read()) EXPECT_TRUE(std::isnan(value)) << "key " << key;
    for (const float value : x.dq.read()) EXPECT_TRUE(std::isnan(value)) << "key " << key;
  }
}

}  // namespace
}  // namespace tessera::host
