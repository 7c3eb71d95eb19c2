#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "advise/ranking.h"

namespace sluice::advise {

/// A limit to start with.
struct Suggestion {
  std::string name;
  std::string expression;
  /// What it would have denied.
  std::uint64_t requests_denied = 0;
  std::uint64_t keys_denied = 0;
  /// Why, in words: full sentences.
  std::string reason;
};

/// The limits to suggest: three of one family, as indices in limit_series(), ascending.
struct Choice {
  std::size_t family = 0;
  std::size_t strict = 0;
  std::size_t balanced = 0;
  std::size_t lenient = 0;
  /// How many keys stand out from all others, first in the family's ranking; 0 if none do.
  std::size_t outliers = 0;
};

/// Chooses from the rankings of all families, by their numbers. `visible` are the numbers of those
/// that the data can tell about, ascending: see Advice::families.
///
/// A few keys, at most a twentieth, stand out if a limit exists that denies each of them, leaves
/// room for at least twice what every other key asked for, and lets a key that has used up its
/// units come back within minutes, or if there is none, within an hour or a day. Of these limits
/// balanced is the one that denies these keys the most requests. Without such keys it is the one
/// that denies something to a hundredth of the keys, or the closest one between two others.
/// REQUIRES: a ranking has a key with a request.
Choice choose(const std::vector<Ranking>& rankings, const std::vector<std::size_t>& visible);

/// The three suggestions of a choice. The ranking may have a sample of the keys only.
std::vector<Suggestion> describe(const Choice& choice, const Ranking& ranking, bool is_sample);

}  // namespace sluice::advise
